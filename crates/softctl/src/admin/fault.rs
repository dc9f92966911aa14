//! What a fault plan does to admin commands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpbell_nvme::{Cqe, Status};

use crate::control::{AdminQueue, Control};
use crate::core::Core;
use crate::engine::Command;
use crate::fault::{Chosen, FaultAction, Incident, Target};

/// No completion is late.
const NEVER: u64 = u64::MAX;

/// A completion that comes later.
#[derive(Debug)]
pub(crate) struct LateAdmin {
    due: Duration,
    entry: Cqe,
}

/// When the next late admin completion is due, for the poller that checks timers. It changes under the control lock.
#[derive(Debug)]
pub(crate) struct AdminLate {
    /// In nanoseconds.
    due: AtomicU64,
}

impl Default for AdminLate {
    fn default() -> Self {
        AdminLate { due: AtomicU64::new(NEVER) }
    }
}

impl AdminLate {
    #[inline]
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.due.load(Ordering::Relaxed);
        (due != NEVER).then(|| Duration::from_nanos(due))
    }

    pub(crate) fn set(&self, due: Option<Duration>) {
        self.due.store(due.map_or(NEVER, |due| due.as_nanos() as u64), Ordering::Relaxed);
    }
}

impl Control {
    /// When the next late completion is due.
    pub(crate) fn next_late(&self) -> Option<Duration> {
        self.late.iter().map(|late| late.due).min()
    }

    /// Whether a late completion is due.
    pub(crate) fn late_is_due(&self) -> bool {
        !self.late.is_empty() && self.next_late().is_some_and(|due| due <= self.engine.time.now())
    }

    /// Posts the late completions whose time has come.
    pub(super) fn post_late(&mut self, admin: &mut AdminQueue) {
        let now = self.engine.time.now();
        for late in self.late.extract_if(.., |late| late.due <= now) {
            admin.cq.release();
            admin.sq.end(late.entry.cid);
            admin.cq.post(&late.entry);
        }
    }
}

impl Core {
    /// The fault that the plan has for an admin command.
    pub(super) fn admin_fault(&self, command: Command<'_>, now: Duration) -> Option<Chosen> {
        let chosen = self.injector.as_ref()?.lock().judge(Target::of(0, command.sqe, now))?;
        if let (FaultAction::Fail { .. }, Some(injector)) = (chosen.action, &self.injector) {
            injector.lock().note(chosen.injected());
        }
        Some(chosen)
    }

    /// What a fault does in place of the command; `None` if the command is executed.
    pub(super) fn instead(
        control: &mut Control,
        cid: u16,
        fault: Option<Chosen>,
    ) -> Option<Result<(), Status>> {
        let action = fault?.action;
        if let Some(incident) = Incident::of(action) {
            control.incident = Some(incident);
            return Some(Ok(()));
        }
        match action {
            FaultAction::Fail { status } => Some(Err(control.engine.with_delay(status))),
            FaultAction::Drop => Some(Ok(())),
            FaultAction::Hang => {
                control.hung.push(cid);
                Some(Ok(()))
            }
            _ => None,
        }
    }

    /// Posts the completion of an admin command, as a fault would have it, and not before what it asked for is `settled`.
    pub(super) fn post_admin(
        control: &mut Control,
        admin: &mut AdminQueue,
        entry: &Cqe,
        fault: Option<Chosen>,
        settled: Option<Duration>,
    ) {
        let now = control.engine.time.now();
        let mut due = settled.unwrap_or(now);
        let action = fault.map(|fault| fault.action);
        if let Some(FaultAction::Delay { by }) = action {
            due += by;
        }
        if due > now {
            admin.cq.reserve();
            admin.sq.begin(entry.cid);
            control.late.push(LateAdmin { due, entry: *entry });
            return;
        }
        match action {
            Some(FaultAction::Duplicate) => {
                admin.cq.post(entry);
                if admin.cq.room() > 0 {
                    admin.cq.post(entry);
                }
            }
            _ => admin.cq.post(entry),
        }
    }
}
