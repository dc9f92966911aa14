//! Stepped mode: no threads, one thing at a time, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use warpbell_hw::Clock;

use crate::core::Core;

/// Time that passes for one step, in nanoseconds.
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

    fn advance_to(&self, then: Duration) {
        self.advance(then.saturating_sub(self.now()));
    }
}

impl Core {
    /// Does one thing that can be done now, chosen by the seed: serve an admin command, fetch an I/O command,
    /// complete one, or change CSTS. False if there is nothing to do.
    pub(crate) fn step(&self, time: &VirtualTime) -> bool {
        let mut control = self.control.lock();
        let control = &mut *control;
        let mut lane = self.lanes[0].lock();
        let mut work = Vec::new();
        lane.work(&mut work);
        let admin = self.admin_ready(control);
        let choices = work.len() + usize::from(admin);
        if let Some((due, transition)) = control.transition
            && (choices == 0 || due <= time.now())
        {
            drop(lane);
            time.advance_to(due);
            control.transition = None;
            self.arrive(control, transition);
            return true;
        }
        if let Some(due) = self.subsystem.due()
            && (choices == 0 || due <= time.now())
        {
            drop(lane);
            time.advance_to(due);
            self.subsystem.work();
            return true;
        }
        if choices == 0 {
            return false;
        }
        let choice = control.random.random_range(0..choices);
        time.advance(Duration::from_nanos(control.random.random_range(STEP_NS)));
        match work.get(choice) {
            Some(work) => lane.perform(*work),
            None => {
                drop(lane);
                self.run_admin(control, 1);
            }
        }
        true
    }
}

impl Clock for VirtualClock<'_> {
    fn now(&self) -> Duration {
        self.time.now()
    }

    fn pause(&self, hint: Duration) {
        if !self.core.step(self.time) {
            self.time.advance(hint.max(PAUSE));
        }
    }
}

/// The clock of a stepped controller: to pause is to let the controller work.
pub(crate) struct VirtualClock<'a> {
    pub(crate) core: &'a Core,
    pub(crate) time: &'a VirtualTime,
}
