//! What a run shares with whoever watches it: progress, and the wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of a run and the wish to stop it; clones share both.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    ios: AtomicU64,
    bytes: AtomicU64,
}

impl Control {
    /// Nothing done yet, nobody wants to stop.
    pub fn new() -> Control {
        Control::default()
    }

    /// Takes its wish to stop from `flag`, as a signal handler sets it.
    pub fn with_stop(flag: Arc<AtomicBool>) -> Control {
        Control(Arc::new(Shared { stop: flag, ..Shared::default() }))
    }

    /// Asks the run to end soon; its results are partial.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked the run to end.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// Counts finished I/Os.
    #[inline]
    pub fn add(&self, ios: u64, bytes: u64) {
        self.0.ios.fetch_add(ios, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// I/Os and bytes so far.
    pub fn done(&self) -> (u64, u64) {
        (self.0.ios.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share() {
        let control = Control::new();
        let other = control.clone();
        other.add(3, 1536);
        other.stop();
        assert_eq!((control.done(), control.stopped()), ((3, 1536), true));
    }
}
