//! Stepped mode: no threads, one thing at a time, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use warpbell_hw::{Clock, MonotonicClock};

use crate::control::Control;
use crate::core::Core;

/// Time that passes for one step, in nanoseconds, where no profile says what takes time.
const STEP_NS: std::ops::Range<u64> = 100..1000;
/// The least time that a pause without work takes.
const PAUSE: Duration = Duration::from_micros(1);

/// Virtual time: it passes when somebody steps, pauses or advances.
#[derive(Debug, Default)]
pub(crate) struct VirtualTime {
    nanoseconds: AtomicU64,
}

impl VirtualTime {
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Acquire))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(by, Ordering::AcqRel);
    }

    pub(crate) fn advance_to(&self, then: Duration) {
        self.advance(then.saturating_sub(self.now()));
    }
}

/// Where the parts of a controller read the time.
#[derive(Clone)]
pub(crate) enum TimeSource {
    Virtual(Arc<VirtualTime>),
    Monotonic(Arc<MonotonicClock>),
}

impl TimeSource {
    pub(crate) fn now(&self) -> Duration {
        match self {
            TimeSource::Virtual(time) => time.now(),
            TimeSource::Monotonic(clock) => clock.now(),
        }
    }
}

impl Core {
    /// Does one thing that can be done at the present virtual time, chosen by the seed: serve an admin command, fetch
    /// an I/O command, let one go on, or change CSTS. False if nothing can be done now.
    pub(crate) fn step(&self, time: &VirtualTime) -> bool {
        if self.removed() {
            return false;
        }
        let mut control = self.control.lock();
        let control = &mut *control;
        if self.change_state(control, time.now()) {
            return true;
        }
        let mut poll_group = self.poll_groups[0].lock();
        poll_group.note_busy(time.now());
        let mut work = Vec::new();
        poll_group.work(&mut work);
        let admin = self.admin_ready(control);
        let choices = work.len() + usize::from(admin);
        if choices == 0 {
            return false;
        }
        let choice = control.random.random_range(0..choices);
        if self.config.profile.is_none() {
            time.advance(Duration::from_nanos(control.random.random_range(STEP_NS)));
        }
        match work.get(choice) {
            Some(work) => {
                poll_group.perform(*work);
                poll_group.note_busy(time.now());
                let incident = poll_group.incident.take();
                drop(poll_group);
                if let Some(incident) = incident {
                    self.suffer(control, incident);
                }
            }
            None => {
                drop(poll_group);
                self.run_admin(control, 1);
            }
        }
        true
    }

    /// Lets a change of CSTS or work of the subsystem happen whose time has come.
    fn change_state(&self, control: &mut Control, now: Duration) -> bool {
        self.answer_pending_reset(control);
        if let Some((_, transition)) = control.transition.filter(|(due, _)| *due <= now) {
            control.transition = None;
            self.arrive(control, transition);
            return true;
        }
        if self.fire_timers(control, now) {
            return true;
        }
        let due = self.subsystem.due().is_some_and(|due| due <= now);
        if due {
            self.subsystem.work();
        }
        due
    }

    /// Lets waiting interrupts happen, and the end of a client that stays silent. Returns whether any did.
    pub(crate) fn fire_timers(&self, control: &mut Control, now: Duration) -> bool {
        let interrupts = self.vectors.due().is_some_and(|due| due <= now) && self.vectors.expire(now);
        self.expire_keep_alive(control, now) || interrupts
    }

    /// The time at which something can be done although nothing can be done now: a change of CSTS,
    /// of the subsystem, or of a command.
    pub(crate) fn next_event(&self, now: Duration) -> Option<Duration> {
        if self.removed() {
            return None;
        }
        let control = self.control.lock();
        let poll_group = self.poll_groups[0].lock().next_event();
        let state = control.transition.map(|(due, _)| due);
        let admin = control.next_late();
        let shared = self.subsystem.due();
        let timers = self.vectors.due().into_iter().chain(self.keep_alive.due());
        poll_group
            .into_iter()
            .chain(state)
            .chain(admin)
            .chain(shared)
            .chain(timers)
            .filter(|due| *due > now)
            .min()
    }
}

impl Clock for VirtualClock<'_> {
    fn now(&self) -> Duration {
        self.time.now()
    }

    fn pause(&self, hint: Duration) {
        if !self.core.step(self.time) {
            let now = self.time.now();
            let then = now + hint.max(PAUSE);
            self.time.advance_to(self.core.next_event(now).map_or(then, |event| event.min(then)));
        }
    }
}

/// The clock of a stepped controller: to pause is to let the controller work.
pub(crate) struct VirtualClock<'a> {
    pub(crate) core: &'a Core,
    pub(crate) time: &'a VirtualTime,
}
