//! What was done by when, in a run: counts at intervals, on the clock of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use warpbell::Ssd;

use crate::bench::progress;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::job::Job;
use crate::options::Api;
use crate::stopwatch::{Stopwatch, stepped};

/// The most counts of a run: two become one where there are more, and intervals twice as long.
const MOST: usize = 4096;

/// I/Os and bytes of a run, interval by interval. What is left at the end and shorter than half of one belongs to the
/// last: few commands that drain have no rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Time between two counts, at least.
    pub interval_ns: u64,
    /// The end of each interval since measuring began.
    pub end_ns: Vec<u64>,
    /// I/Os that ended in it.
    pub ios: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
}

impl Series {
    fn push(&mut self, end_ns: u64, (ios, bytes): (u64, u64)) {
        if self.end_ns.len() == MOST {
            self.halve();
        }
        self.end_ns.push(end_ns);
        self.ios.push(ios);
        self.bytes.push(bytes);
    }

    /// The end of the run.
    fn finish(&mut self, end_ns: u64, (ios, bytes): (u64, u64)) {
        match (self.end_ns.last_mut(), self.ios.last_mut(), self.bytes.last_mut()) {
            (Some(end), Some(last_ios), Some(last_bytes)) if end_ns - *end < self.interval_ns / 2 => {
                (*end, *last_ios, *last_bytes) = (end_ns, *last_ios + ios, *last_bytes + bytes);
            }
            _ => self.push(end_ns, (ios, bytes)),
        }
    }

    fn halve(&mut self) {
        let sums = |counts: &[u64]| counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.end_ns = self.end_ns.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        (self.ios, self.bytes) = (sums(&self.ios), sums(&self.bytes));
        self.interval_ns *= 2;
    }

    /// I/Os per second in each interval, with the middle of it.
    pub fn iops(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let begins = std::iter::once(0).chain(self.end_ns.iter().copied());
        let each = begins.zip(&self.end_ns).zip(&self.ios);
        each.map(|((begin, end), ios)| {
            (begin.midpoint(*end), *ios as f64 * 1e9 / (end - begin).max(1) as f64)
        })
    }
}

/// Why a run has none.
fn missing(ssd: &Ssd, job: &Job) -> Option<&'static str> {
    if job.array.is_some() {
        Some("words of an array are counted at the end of the run")
    } else if job.api != Api::Host && ssd.soft().is_none() {
        Some("kernels count at their end, and the controller of this device is not ours to ask")
    } else {
        None
    }
}

/// Counts while a run goes on.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// When the next count is due, on the clock that the run looks at.
    due: AtomicU64,
    /// Commands of an I/O.
    commands: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When counting began, and the counts at the last interval's end.
    began: Option<Duration>,
    last: (u64, u64),
    series: Series,
}

impl Timeline {
    /// Begins to count at `due`.
    fn new(job: &Job, due: Duration) -> Timeline {
        let series = Series { interval_ns: nanoseconds(job.interval), ..Series::default() };
        Timeline {
            due: AtomicU64::new(nanoseconds(due)),
            commands: u64::from(job.commands_per_io).max(1),
            state: Mutex::new(State { series, ..State::default() }),
        }
    }

    /// I/Os and bytes so far: the host counts I/Os, a controller commands.
    pub(crate) fn counts(&self, ssd: &Ssd, control: &Control) -> (u64, u64) {
        let (ios, bytes) = progress(ssd, control);
        (if ssd.soft().is_some() { ios / self.commands } else { ios }, bytes)
    }

    /// Counts, where it is time to.
    #[inline]
    pub(crate) fn look(&self, now: Duration, counts: impl FnOnce() -> (u64, u64)) {
        if nanoseconds(now) >= self.due.load(Ordering::Relaxed) {
            self.count(now, counts(), Series::push);
        }
    }

    fn count(&self, now: Duration, counts: (u64, u64), keep: fn(&mut Series, u64, (u64, u64))) {
        let mut state = self.state.lock();
        match state.began {
            None => (state.began, state.last) = (Some(now), counts),
            Some(began) => {
                let (ios, bytes) = state.last;
                let more = (counts.0.saturating_sub(ios), counts.1.saturating_sub(bytes));
                keep(&mut state.series, nanoseconds(now.saturating_sub(began)), more);
                state.last = counts;
            }
        }
        let next = nanoseconds(now).saturating_add(state.series.interval_ns);
        self.due.store(next, Ordering::Relaxed);
    }
}

/// Runs `measure` and counts meanwhile what is done; or says why nobody can.
pub(crate) fn timed<T>(
    (ssd, job): (&Ssd, &Job),
    control: &Control,
    measure: impl FnOnce(&Control) -> T,
) -> (T, Result<Series, &'static str>) {
    if let Some(why) = missing(ssd, job) {
        return (measure(control), Err(why));
    }
    // Threads of the host warm up by themselves.
    let ramp = if job.api == Api::Host { job.ramp } else { Duration::ZERO };
    // In virtual time whoever lets it pass looks, and knows the controller's own clock alone.
    let clock = Stopwatch::start(ssd);
    let now = || clock.virtual_now().unwrap_or_else(|| clock.elapsed());
    let begin = now();
    let timeline = Arc::new(Timeline::new(job, begin + ramp));
    let control = control.clone().timed(timeline.clone());
    control.look(ssd, begin);
    let result = match stepped(ssd) {
        Some(_) => measure(&control),
        None => beside(|| control.look(ssd, clock.elapsed()), &timeline, clock, || measure(&control)),
    };
    timeline.count(now(), timeline.counts(ssd, &control), Series::finish);
    let series = std::mem::take(&mut timeline.state.lock().series);
    (result, Ok(series))
}

/// Runs `measure`, while a thread looks in real time.
fn beside<T>(
    look: impl Fn() + Sync,
    timeline: &Timeline,
    clock: Stopwatch<'_>,
    measure: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        // The thread ends when `running` is dropped, also where the run panics.
        let (running, ended) = channel::<()>();
        let watch = || {
            let ended = ended;
            loop {
                let due = Duration::from_nanos(timeline.due.load(Ordering::Relaxed));
                let left = due.saturating_sub(clock.elapsed());
                if ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                look();
            }
        };
        scope.spawn(watch);
        let result = measure();
        drop(running);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_their_intervals_and_nothing_is_lost() {
        let series = Series { interval_ns: 10, ..Series::default() };
        let state = Mutex::new(State { series, ..State::default() });
        let timeline = Timeline { due: AtomicU64::new(100), commands: 1, state };
        for (now, ios) in [(50, 5), (100, 7), (105, 9), (110, 12), (135, 20), (136, 21)] {
            timeline.look(Duration::from_nanos(now), || (ios, ios * 512));
        }
        timeline.count(Duration::from_nanos(140), (22, 22 * 512), Series::finish);
        let series = std::mem::take(&mut timeline.state.lock().series);
        assert_eq!((&series.end_ns[..], &series.ios[..]), (&[10, 35, 40][..], &[5, 8, 2][..]));
        assert_eq!(series.bytes.iter().sum::<u64>(), 15 * 512);
        let rates: Vec<f64> = series.iops().map(|(_, rate)| rate).collect();
        assert_eq!(rates, [5e8, 3.2e8, 4e8]);
        let mut short = series.clone();
        short.finish(44, (3, 512));
        assert_eq!(
            (&short.end_ns[..], &short.ios[..]),
            (&[10, 35, 44][..], &[5, 8, 5][..]),
            "too short for a rate"
        );
    }

    #[test]
    fn a_long_run_has_longer_intervals() {
        let mut series = Series { interval_ns: 10, ..Series::default() };
        (1..=MOST as u64 + 1).for_each(|end| series.push(end * 10, (1, 512)));
        assert_eq!((series.interval_ns, series.end_ns.len()), (20, MOST / 2 + 1));
        assert_eq!(series.end_ns[..2], [20, 40]);
        assert_eq!(series.ios.iter().sum::<u64>(), MOST as u64 + 1);
    }
}
