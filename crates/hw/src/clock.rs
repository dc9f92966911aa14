//! Time as a driver sees it: real, or virtual in a simulation.

use std::time::{Duration, Instant};

/// A clock that only goes forward, and a way to let time pass.
///
/// Every wait loop of a driver asks `now` for its deadline and calls `pause` between polls. In a
/// simulation `pause` steps the controller and advances virtual time, so a single thread suffices.
pub trait Clock: Send + Sync {
    /// Time since the clock's own start.
    fn now(&self) -> Duration;
    /// Lets up to about `hint` pass; zero means: just give others a chance.
    fn pause(&self, hint: Duration);
    /// Whether time passes, and the controller works, while a thread sleeps in the kernel, as for an interrupt.
    /// False where `pause` is what makes time pass: there everybody polls.
    fn passes_by_itself(&self) -> bool {
        false
    }
}

/// The system's monotonic clock.
#[derive(Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that starts now.
    pub fn new() -> MonotonicClock {
        MonotonicClock { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&self, hint: Duration) {
        if hint.is_zero() {
            std::thread::yield_now();
        } else {
            std::thread::sleep(hint);
        }
    }

    fn passes_by_itself(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pausing_takes_time() {
        let clock = MonotonicClock::new();
        let before = clock.now();
        clock.pause(Duration::from_millis(2));
        assert!(clock.now() >= before + Duration::from_millis(2));
    }
}
