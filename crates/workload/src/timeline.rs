//! What was done by when, in a run: counts at intervals, on the clock of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use warpbell::Ssd;
use warpbell_hw::Device;

use crate::bench::completed;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::job::Job;
use crate::options::Api;
use crate::stopwatch::stepped;

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
            (Some(end), Some(last_ios), Some(last_bytes))
                if end_ns.saturating_sub(*end) < self.interval_ns / 2 =>
            {
                // Who looks may have read the clock after it was read for the end.
                let end_ns = end_ns.max(*end);
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

/// Counts while a run goes on. Its time is real, or the virtual one of the controller.
#[derive(Debug)]
pub(crate) struct Timeline {
    start: Instant,
    /// When the next count is due.
    due: AtomicU64,
    /// Commands of an I/O.
    commands: u64,
    /// I/Os and bytes that the host counted in this run.
    ios: AtomicU64,
    bytes: AtomicU64,
    state: Mutex<State>,
}

/// Nothing is due before measuring begins, nor after it ends.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
struct State {
    /// When measuring began, and the counts at the last interval's end.
    began: Option<Duration>,
    last: (u64, u64),
    /// Threads that measure.
    running: usize,
    /// When the last of them ended, and the counts then.
    ended: Option<(Duration, (u64, u64))>,
    series: Series,
}

impl State {
    /// Keeps what was done since the last count.
    fn count(&mut self, now: Duration, counts: (u64, u64), keep: fn(&mut Series, u64, (u64, u64))) {
        let Some(began) = self.began else { return };
        let more = (counts.0.saturating_sub(self.last.0), counts.1.saturating_sub(self.last.1));
        keep(&mut self.series, nanoseconds(now.saturating_sub(began)), more);
        self.last = counts;
    }
}

impl Timeline {
    fn new(job: &Job) -> Timeline {
        let series = Series { interval_ns: nanoseconds(job.interval), ..Series::default() };
        Timeline {
            start: Instant::now(),
            due: AtomicU64::new(NEVER),
            commands: u64::from(job.commands_per_io).max(1),
            ios: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: Mutex::new(State { series, ..State::default() }),
        }
    }

    /// The time on the clock that the run looks at.
    pub(crate) fn now(&self, ssd: &Ssd) -> Duration {
        stepped(ssd).map_or_else(|| self.start.elapsed(), |soft| soft.clock().now())
    }

    /// I/Os and bytes so far: a controller of ours counts commands, otherwise the host counts I/Os.
    pub(crate) fn counts(&self, ssd: &Ssd) -> (u64, u64) {
        match ssd.soft() {
            Some(soft) => {
                let (commands, bytes) = completed(soft);
                (commands / self.commands, bytes)
            }
            None => (self.ios.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)),
        }
    }

    /// Adds what the host counted.
    pub(crate) fn add(&self, ios: u64, bytes: u64) {
        self.ios.fetch_add(ios, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One more thread measures.
    pub(crate) fn begin(&self, now: Duration, counts: (u64, u64)) {
        let mut state = self.state.lock();
        if state.began.is_none() {
            (state.began, state.last) = (Some(now), counts);
        }
        state.running += 1;
        state.ended = None;
        if self.due.load(Ordering::Relaxed) == NEVER {
            self.due.store(nanoseconds(now).saturating_add(state.series.interval_ns), Ordering::Relaxed);
        }
    }

    /// One of them measures no more.
    pub(crate) fn end(&self, now: Duration, counts: (u64, u64)) {
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            state.ended = Some((now, counts));
            self.due.store(NEVER, Ordering::Relaxed);
        }
    }

    /// Counts, where it is time to.
    #[inline]
    pub(crate) fn sample(&self, now: Duration, counts: impl FnOnce() -> (u64, u64)) {
        if nanoseconds(now) >= self.due.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            // It may have ended meanwhile.
            if state.ended.is_none() {
                state.count(now, counts(), Series::push);
                let next = nanoseconds(now).saturating_add(state.series.interval_ns);
                self.due.store(next, Ordering::Relaxed);
            }
        }
    }

    /// All counts, once nobody measures any more.
    fn finish(&self) -> Series {
        let mut state = self.state.lock();
        if let Some((now, counts)) = state.ended {
            state.count(now, counts, Series::finish);
        }
        std::mem::take(&mut state.series)
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
    let timeline = Arc::new(Timeline::new(job));
    let control = control.clone().timed(timeline.clone());
    // In virtual time whoever lets it pass looks.
    let result = match stepped(ssd) {
        Some(_) => measure(&control),
        None => beside(ssd, job.interval, (&timeline, &control), || measure(&control)),
    };
    (result, Ok(timeline.finish()))
}

/// Runs `measure`, while a thread looks in real time.
fn beside<T>(
    ssd: &Ssd,
    interval: Duration,
    (timeline, control): (&Timeline, &Control),
    measure: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        // The thread ends when `running` is dropped, also where the run panics.
        let (running, ended) = channel::<()>();
        let watch = || {
            let ended = ended;
            loop {
                let due = Duration::from_nanos(timeline.due.load(Ordering::Relaxed));
                // Measuring may begin meanwhile; the first count is due an interval later.
                let left = due.saturating_sub(timeline.now(ssd)).min(interval);
                if ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                control.sample(ssd, timeline.now(ssd));
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

    /// With an interval of ten nanoseconds.
    fn timeline() -> Timeline {
        let job = Job { interval: Duration::from_nanos(10), ..crate::result::tests::run(0, 0).job };
        Timeline::new(&job)
    }

    #[test]
    fn a_thread_may_begin_when_another_has_ended() {
        let (timeline, at) = (timeline(), Duration::from_nanos);
        timeline.begin(at(100), (0, 0));
        timeline.end(at(103), (1, 512));
        timeline.begin(at(105), (1, 512));
        timeline.sample(at(115), || (4, 2048));
        timeline.end(at(122), (9, 9 * 512));
        let series = timeline.finish();
        assert_eq!((&series.end_ns[..], &series.ios[..]), (&[15, 22][..], &[4, 5][..]));
        let timeline = self::timeline();
        timeline.begin(at(100), (0, 0));
        timeline.sample(at(112), || (4, 2048));
        timeline.end(at(111), (3, 3 * 512));
        let series = timeline.finish();
        assert_eq!(
            (&series.end_ns[..], &series.ios[..]),
            (&[12][..], &[4][..]),
            "seen before its end was marked"
        );
        assert!(self::timeline().finish().end_ns.is_empty(), "nothing was measured");
    }

    #[test]
    fn counts_are_of_their_intervals_and_nothing_is_lost() {
        let timeline = timeline();
        let at = Duration::from_nanos;
        // What is set up before, and what is put away after, takes time and is not measured.
        timeline.sample(at(50), || (5, 5 * 512));
        timeline.begin(at(100), (7, 7 * 512));
        timeline.begin(at(101), (7, 7 * 512));
        for (now, ios) in [(105, 9), (110, 12), (135, 20), (136, 21)] {
            timeline.sample(at(now), || (ios, ios * 512));
        }
        timeline.end(at(138), (21, 21 * 512));
        timeline.end(at(140), (22, 22 * 512));
        timeline.sample(at(500), || (99, 99 * 512));
        let series = timeline.finish();
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
