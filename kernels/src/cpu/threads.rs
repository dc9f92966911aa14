//! Workers on threads of their own.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::ffi::Counters;
use super::launch::Launch;
use super::worker::{State, Worker};
use crate::Error;

/// What a thread does when all its warps only poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Look again at once: for a CPU of its own.
    Spin,
    /// Let others run after so many polls in a row that found nothing, then after each.
    YieldAfter(u32),
}

warpbell_base::options! {
    /// How many threads, and where.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Threads {
        /// Threads; each runs its share of the blocks. At most one for each block is started.
        pub workers: usize,
        /// CPUs to pin them to, in turn; empty: wherever the system likes.
        pub pin: Vec<usize>,
        /// What they do when there is nothing to do.
        pub idle: Idle,
        /// Warp turns between checks of the outside world.
        pub turns: u32,
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { workers: 1, pin: Vec::new(), idle: Idle::YieldAfter(8), turns: 4096 }
    }
}

/// What one thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReport {
    /// Its counters.
    pub counters: Counters,
    /// CPU time of the thread.
    pub cpu_time: Duration,
    /// Steps after which every warp only polled.
    pub idle_steps: u64,
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sum over all threads.
    pub counters: Counters,
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// Each thread.
    pub threads: Vec<ThreadReport>,
}

impl Report {
    /// CPU time of all threads.
    pub fn cpu_time(&self) -> Duration {
        self.threads.iter().map(|thread| thread.cpu_time).sum()
    }
}

/// A launch on its threads. Dropping it stops them without regard for what is in flight.
pub struct Running {
    /// Each returns its launch: what it shares is released by who joins, after all have ended.
    threads: Vec<JoinHandle<(Launch, Result<ThreadReport, Error>)>>,
    cancelled: Arc<AtomicBool>,
    start: Instant,
}

/// Runs a launch to its end on threads of its own.
pub fn run_threads(launch: &Launch, threads: &Threads) -> Result<Report, Error> {
    spawn_threads(launch, threads)?.join()
}

/// Starts a launch on threads of its own.
pub fn spawn_threads(launch: &Launch, options: &Threads) -> Result<Running, Error> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let workers = options.workers.clamp(1, launch.grid.max(1) as usize);
    launch.residents(workers as u32)?;
    let mut running =
        Running { threads: Vec::new(), cancelled: Arc::clone(&cancelled), start: Instant::now() };
    for worker in 0..workers {
        let (launch, options, cancelled) = (launch.clone(), options.clone(), Arc::clone(&cancelled));
        let builder = thread::Builder::new().name(format!("{}-{worker}", launch.kernel()));
        let thread = builder.spawn(move || {
            let result = run_share(&launch, &options, worker, workers, &cancelled);
            if result.is_err() {
                // The others may wait for lanes that will never answer.
                cancelled.store(true, Ordering::Relaxed);
            }
            (launch, result)
        });
        running.threads.push(thread.map_err(|error| Error::Thread { worker, reason: error.to_string() })?);
    }
    Ok(running)
}

impl Running {
    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Makes all threads end soon, without regard for what is in flight.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits for the end. The first error that is more than a consequence of another wins.
    pub fn join(mut self) -> Result<Report, Error> {
        let mut report = Report::default();
        let mut failure: Option<Error> = None;
        for thread in self.threads.drain(..) {
            match thread.join().map(|(_, result)| result) {
                Ok(Ok(thread)) => {
                    report.counters += thread.counters;
                    report.threads.push(thread);
                }
                Ok(Err(error)) => {
                    if failure.as_ref().is_none_or(|first| matches!(first, Error::Stopped { .. })) {
                        failure = Some(error);
                    }
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report.elapsed = self.start.elapsed();
        failure.map_or(Ok(report), Err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel();
        for thread in self.threads.drain(..) {
            // Its error, or panic, is of no interest to who dropped it.
            let _ = thread.join();
        }
    }
}

/// One thread: every `of`th block from `worker` on.
fn run_share(
    launch: &Launch,
    options: &Threads,
    worker: usize,
    of: usize,
    cancelled: &AtomicBool,
) -> Result<ThreadReport, Error> {
    pin(options, worker)?;
    let mut share = Worker::new(launch, worker as u32, of as u32)?;
    let mut report = ThreadReport::default();
    let (mut polls, mut done) = (0, 0);
    loop {
        let idle = *share.step(options.turns) == State::Idle;
        if share.finished()? {
            break;
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Stopped { kernel: launch.kernel().to_owned() });
        }
        // A step that ends idle may have done much before.
        let before = std::mem::replace(&mut done, work_of(&share.counters()));
        polls = if idle && done == before { polls + 1 } else { 0 };
        report.idle_steps += u64::from(idle);
        match options.idle {
            Idle::YieldAfter(limit) if polls > limit => thread::yield_now(),
            _ if idle => std::hint::spin_loop(),
            _ => {}
        }
    }
    report.counters = share.counters();
    report.cpu_time = thread_cpu_time();
    Ok(report)
}

/// Grows with commands, completions and doorbells.
fn work_of(counters: &Counters) -> u64 {
    counters.sqes + counters.cqes + counters.doorbells + counters.shadow_stores
}

fn pin(options: &Threads, worker: usize) -> Result<(), Error> {
    let Some(turn) = NonZero::new(options.pin.len()) else { return Ok(()) };
    let id = options.pin[worker % turn];
    if core_affinity::set_for_current(core_affinity::CoreId { id }) {
        return Ok(());
    }
    Err(Error::Thread { worker, reason: format!("cannot be pinned to CPU {id}") })
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
