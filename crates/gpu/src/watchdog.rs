//! Stops kernels that run for too long.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpbell_hw::Window;

/// What a watchdog did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogReport {
    /// Nothing: the kernel ended within its time.
    InTime,
    /// It set the stop flag. Reported at once; if the kernel goes on, `Ignored` follows.
    Stopped,
    /// It set the stop flag, and the kernel ignored it: it runs for ever. It cannot be killed without its context, which
    /// is every kernel and all memory that this process has on the GPU: end the process.
    Ignored,
}

impl WatchdogReport {
    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            WatchdogReport::InTime => "the kernel ended within its time",
            WatchdogReport::Stopped => "the kernel ran for too long, was told to stop, and did",
            WatchdogReport::Ignored => {
                "the kernel ran for too long and ignores its stop flag; it cannot be killed without its context: end the \
                 process"
            }
        }
    }
}

/// Sets a stop flag when a kernel has not ended after a time.
///
/// The flag is a 32-bit word in host memory that the kernel polls: the watchdog stores 1. If the kernel has not
/// ended a while later either, it says so.
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    report: WatchdogReport,
    ended: bool,
}

impl Watchdog {
    /// Starts the clock. After `limit` the word at the start of `flag` is set; after `grace` more, `tell` gets
    /// [`WatchdogReport::Ignored`]. It is told of [`WatchdogReport::Stopped`] when the flag is set.
    pub fn start(
        flag: Window,
        limit: Duration,
        grace: Duration,
        tell: impl FnMut(WatchdogReport) + Send + 'static,
    ) -> std::io::Result<Watchdog> {
        let state = Mutex::new(State { report: WatchdogReport::InTime, ended: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let watched = shared.clone();
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(move || watched.run(&flag, limit, grace, tell))?;
        Ok(Watchdog { shared, thread: Some(thread) })
    }

    /// The kernel has ended; what was done until then.
    pub fn end(mut self) -> WatchdogReport {
        self.stop();
        self.report()
    }

    /// What was done so far.
    pub fn report(&self) -> WatchdogReport {
        self.shared.state.lock().report
    }

    fn stop(&mut self) {
        self.shared.state.lock().ended = true;
        self.shared.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the watchdog panicked");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, flag: &Window, limit: Duration, grace: Duration, mut tell: impl FnMut(WatchdogReport)) {
        if self.has_ended_within(limit) {
            return;
        }
        flag.store_u32(0, 1, Ordering::Release);
        self.report(WatchdogReport::Stopped, &mut tell);
        if !self.has_ended_within(grace) {
            self.report(WatchdogReport::Ignored, &mut tell);
        }
    }

    fn report(&self, report: WatchdogReport, tell: &mut impl FnMut(WatchdogReport)) {
        self.state.lock().report = report;
        tell(report);
    }

    fn has_ended_within(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        match Instant::now().checked_add(limit) {
            Some(deadline) => {
                self.changed.wait_while_until(&mut state, |state| !state.ended, deadline);
            }
            // Longer than the clock goes.
            None => self.changed.wait_while(&mut state, |state| !state.ended),
        }
        state.ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(3600);

    fn flag() -> Window {
        Window::host(64).unwrap()
    }

    #[test]
    fn a_kernel_in_time_is_left_alone() {
        let flag = flag();
        for limit in [LONG, Duration::MAX] {
            let watchdog = Watchdog::start(flag.clone(), limit, LONG, |_| panic!("told of nothing")).unwrap();
            assert_eq!(watchdog.end(), WatchdogReport::InTime);
        }
        assert_eq!(flag.load_u32(0, Ordering::Relaxed), 0);
    }

    #[test]
    fn a_kernel_that_is_late_is_told_to_stop() {
        let (flag, (tell, told)) = (flag(), mpsc::channel());
        let watchdog =
            Watchdog::start(flag.clone(), SHORT, LONG, move |report| tell.send(report).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap(), WatchdogReport::Stopped);
        assert_eq!(flag.load_u32(0, Ordering::Acquire), 1);
        assert_eq!(watchdog.end(), WatchdogReport::Stopped);
        assert!(told.recv().is_err(), "nothing more");
    }

    #[test]
    fn a_kernel_that_ignores_the_flag_is_told_of() {
        let (tell, told) = mpsc::channel();
        let watchdog =
            Watchdog::start(flag(), SHORT, SHORT, move |report| tell.send(report).unwrap()).unwrap();
        let reports: Vec<_> = told.iter().take(2).collect();
        assert_eq!(reports, [WatchdogReport::Stopped, WatchdogReport::Ignored]);
        assert!(WatchdogReport::Ignored.words().contains("cannot be killed without its context"));
        assert_eq!(watchdog.end(), WatchdogReport::Ignored);
    }
}
