//! One job on each of several SSDs at the same time.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use warpbell::{Ssd, Target};

use crate::bench::bench;
use crate::control::Control;
use crate::error::RunError;
use crate::job::Job;
use crate::result::Run;

/// Lets all begin to measure when the last is ready to.
#[derive(Debug)]
pub(crate) struct Meeting {
    /// How many are still to come.
    missing: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn of(count: usize) -> Arc<Meeting> {
        Arc::new(Meeting { missing: Mutex::new(count), changed: Condvar::new() })
    }
}

/// One participant's place in a meeting. Whoever leaves without having come is not waited for.
#[derive(Debug)]
pub(crate) struct Place {
    meeting: Arc<Meeting>,
    came: Mutex<bool>,
}

impl Place {
    fn come(&self) -> bool {
        if std::mem::replace(&mut *self.came.lock(), true) {
            return false;
        }
        *self.meeting.missing.lock() -= 1;
        self.meeting.changed.notify_all();
        true
    }

    /// Waits for the others, the first time.
    pub(crate) fn meet(&self) {
        if self.come() {
            let mut missing = self.meeting.missing.lock();
            self.meeting.changed.wait_while(&mut missing, |missing| *missing > 0);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.come();
    }
}

/// Runs each job on its SSD, all at the same time: each fills and warms up by itself, and they begin to measure
/// together. The runs come in the order of the SSDs.
pub fn bench_together(
    jobs: &[(&Ssd, &Job)],
    target: Target,
    control: &Control,
) -> Vec<Result<Run, RunError>> {
    let meeting = Meeting::of(jobs.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = jobs
            .iter()
            .map(|(ssd, job)| {
                let place = Place { meeting: meeting.clone(), came: Mutex::new(false) };
                let control = control.clone().at(place);
                scope.spawn(move || bench(ssd, target, job, &control))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_meet_though_one_fails_before() {
        let meeting = Meeting::of(3);
        let place = || Place { meeting: meeting.clone(), came: Mutex::new(false) };
        std::thread::scope(|scope| {
            for place in [place(), place()] {
                scope.spawn(move || {
                    place.meet();
                    place.meet();
                });
            }
            drop(place());
        });
        assert_eq!(*meeting.missing.lock(), 0);
    }
}
