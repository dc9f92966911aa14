//! Progress of long work: one line on a terminal's stderr, nothing elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);

/// What the end of the work is known by.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// So much time.
    Time(Duration),
    /// So many bytes.
    Bytes(u64),
}

/// Counts I/Os and bytes done so far.
pub type Count<'a> = &'a (dyn Fn() -> (u64, u64) + Sync);

/// Runs `work` and shows how far it got, as `done` says.
pub fn watch<T>(label: &str, goal: Goal, done: Count<'_>, work: impl FnOnce() -> T) -> T {
    let bar = bar(label, 1000);
    if bar.is_hidden() {
        return work();
    }
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| draw(&bar, goal, done, &finished));
        let stop = Finish(&finished);
        let result = work();
        drop(stop);
        result
    })
}

/// A line on a terminal's stderr.
fn bar(label: &str, length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("[{prefix}] {percent:>3}% [{bar:24}] {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_prefix(label.to_owned());
    bar
}

/// Steps of work whose length is known by their number.
pub struct Steps(ProgressBar);

impl Steps {
    /// So many steps to come.
    pub fn new(label: &str, count: u64) -> Steps {
        Steps(bar(label, count))
    }

    /// The next one begins.
    pub fn next(&self, what: &'static str) {
        self.0.set_message(what);
        self.0.inc(1);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Work whose length nobody knows before: files and bytes so far.
pub struct Tally(ProgressBar);

impl Tally {
    /// None so far.
    pub fn new(label: &str) -> Tally {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("[{prefix}] {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(label.to_owned());
        Tally(bar)
    }

    /// So many by now.
    pub fn show(&self, files: u64, bytes: u64) {
        if !self.0.is_hidden() {
            self.0.set_message(format!("{files} files, {} read", units::bytes(bytes)));
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Ends the drawing thread, also when the work panics.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn draw(bar: &ProgressBar, goal: Goal, done: Count<'_>, finished: &AtomicBool) {
    let start = Instant::now();
    let base = done().1;
    let (mut then, mut before) = (start, done());
    while !finished.load(Ordering::Relaxed) {
        std::thread::sleep(INTERVAL);
        let (now, counts) = (Instant::now(), done());
        let seconds = (now - then).as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let share = share(goal, now - start, counts.1.saturating_sub(base));
        bar.set_position((share * 1000.0) as u64);
        let ios = (counts.0 > 0).then(|| rate(counts.0, before.0));
        bar.set_message(line(ios, rate(counts.1, before.1), share, now - start));
        (then, before) = (now, counts);
    }
    bar.finish_and_clear();
}

/// How much of the work is done, 0 to 1.
fn share(goal: Goal, elapsed: Duration, bytes: u64) -> f64 {
    let share = match goal {
        Goal::Time(total) => elapsed.as_secs_f64() / total.as_secs_f64(),
        Goal::Bytes(total) => bytes as f64 / total as f64,
    };
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

/// `5809MiB/s (6091MB/s) 1487k IOPS eta 17s`; without I/Os where nothing counts them.
fn line(iops: Option<f64>, bytes_per_s: f64, share: f64, elapsed: Duration) -> String {
    let eta = if share > 0.0 { elapsed.as_secs_f64() * (1.0 - share) / share } else { f64::INFINITY };
    let eta = if eta.is_finite() { format!("{eta:.0}s") } else { "-".to_owned() };
    let iops = iops.map(|iops| format!(" {} IOPS", units::iops(iops))).unwrap_or_default();
    format!("{}{iops} eta {eta}", units::bandwidth(bytes_per_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_lines() {
        assert_eq!(share(Goal::Time(Duration::from_secs(4)), Duration::from_secs(1), 0), 0.25);
        assert_eq!(share(Goal::Bytes(0), Duration::from_secs(1), 0), 0.0);
        assert_eq!(share(Goal::Bytes(10), Duration::from_secs(1), 20), 1.0);
        let text = line(Some(1_487_000.0), 6_090_752_000.0, 0.25, Duration::from_secs(1));
        assert_eq!(text, "5809MiB/s (6091MB/s) 1487k IOPS eta 3s");
        assert!(line(None, 0.0, 0.0, Duration::ZERO).ends_with("(0B/s) eta -"));
    }

    #[test]
    fn work_runs_without_a_terminal() {
        assert_eq!(watch("r", Goal::Bytes(1), &|| (0, 0), || 7), 7);
    }
}
