//! What a run shares with whoever watches it: progress, and the wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use warpbell::Ssd;

use crate::timeline::Timeline;
use crate::together::Place;

/// Progress of a run and the wish to stop it; clones share both.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<Shared>,
    /// Where it waits for runs on other SSDs.
    place: Option<Arc<Place>>,
    /// What is done by when.
    timeline: Option<Arc<Timeline>>,
}

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
        Control { shared: Arc::new(Shared { stop: flag, ..Shared::default() }), ..Control::default() }
    }

    /// The same for a run that measures together with others.
    pub(crate) fn at(self, place: Place) -> Control {
        Control { place: Some(Arc::new(place)), ..self }
    }

    /// The same for a run whose counts over time are kept.
    pub(crate) fn timed(self, timeline: Arc<Timeline>) -> Control {
        Control { timeline: Some(timeline), ..self }
    }

    /// Measuring begins, on one of the threads of a run. What was set up before is not in its counts over time.
    pub(crate) fn begin(&self, ssd: &Ssd) {
        if let Some(timeline) = &self.timeline {
            timeline.begin(timeline.now(ssd), timeline.counts(ssd));
        }
    }

    /// It ends on one of them.
    pub(crate) fn end(&self, ssd: &Ssd) {
        if let Some(timeline) = &self.timeline {
            timeline.end(timeline.now(ssd), timeline.counts(ssd));
        }
    }

    /// Counts what is done on `ssd`, where that is kept and due.
    #[inline]
    pub(crate) fn sample(&self, ssd: &Ssd, now: Duration) {
        if let Some(timeline) = &self.timeline {
            timeline.sample(now, || timeline.counts(ssd));
        }
    }

    /// Waits until the others are ready to measure too.
    pub(crate) fn meet(&self) {
        if let Some(place) = &self.place {
            place.meet();
        }
    }

    /// Asks the run to end soon; its results are partial.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked the run to end.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Counts finished I/Os.
    #[inline]
    pub fn add(&self, ios: u64, bytes: u64) {
        self.shared.ios.fetch_add(ios, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The same of I/Os that are measured.
    #[inline]
    pub(crate) fn add_measured(&self, ios: u64, bytes: u64) {
        self.add(ios, bytes);
        if let Some(timeline) = &self.timeline {
            timeline.add(ios, bytes);
        }
    }

    /// I/Os and bytes so far, of all runs that share it.
    pub fn done(&self) -> (u64, u64) {
        (self.shared.ios.load(Ordering::Relaxed), self.shared.bytes.load(Ordering::Relaxed))
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
