//! The thread that polls an SSD.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Recovery;

/// The longest between two polls of alarms while launches exist and all is well.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Recovery of an SSD with the thread that does it, as long as somebody has this. The SSD and its attachments do.
pub(crate) struct Watch {
    recovery: Arc<Recovery>,
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Ends the thread.
#[derive(Default)]
struct Stop {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    pub(crate) fn new(recovery: Arc<Recovery>) -> Watch {
        Watch { recovery, stop: Arc::default(), thread: Mutex::default() }
    }

    pub(crate) fn recovery(&self) -> &Arc<Recovery> {
        &self.recovery
    }

    /// Starts the thread, if it does not run, and if time passes by itself: in virtual time a simulation looks.
    pub(crate) fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_some() || !self.recovery.controller().device().clock().passes_by_itself() {
            return;
        }
        let (recovery, stop) = (self.recovery.clone(), self.stop.clone());
        let started = thread::Builder::new().name("recovery".to_owned()).spawn(move || run(&recovery, &stop));
        match started {
            Ok(started) => *thread = Some(started),
            Err(error) => tracing::error!(
                device = %self.recovery.controller().name(), %error,
                "no thread for recovery: queues that do not answer are not replaced"
            ),
        }
    }
}

impl Drop for Watch {
    /// Waits for the end of a pass that goes on, which has an end by itself.
    fn drop(&mut self) {
        *self.stop.set.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.get_mut().take()
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread for recovery panicked");
        }
    }
}

fn run(recovery: &Recovery, stop: &Stop) {
    let mut pause = recovery.policy().alarm_period;
    loop {
        let mut set = stop.set.lock();
        if !*set {
            stop.changed.wait_for(&mut set, pause);
        }
        if *set {
            return;
        }
        drop(set);
        pause = next_pause(pause, recovery.turn(), recovery);
    }
}

/// What a turn found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something waits for its next step.
    Busy,
    /// Nothing, but there are launches, whose alarms may come.
    Quiet,
    /// No launch: no alarm can come.
    Idle,
}

/// Soon again after something happened; then less and less often.
fn next_pause(last: Duration, turn: Turn, recovery: &Recovery) -> Duration {
    let policy = recovery.policy();
    match turn {
        Turn::Busy => policy.alarm_period,
        Turn::Quiet => (last * 2).min(LONGEST_PAUSE).max(policy.alarm_period),
        Turn::Idle => policy.health_period.min(policy.event_period).max(policy.alarm_period),
    }
}
