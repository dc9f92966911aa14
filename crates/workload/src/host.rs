//! Runs jobs from host threads over the driver's own queues: `--api host`.

mod worker;

use std::sync::Arc;
use std::time::Duration;

use warpbell::{DataPointers, HostQueue, HostQueueSpec, Ssd};
use warpbell_driver::{IoQueueOptions, Notification, RetryPolicy};

use crate::bench::Runner;
use crate::control::Control;
use crate::cpu;
use crate::distribution::drawn;
use crate::error::RunError;
use crate::job::Job;
use crate::options::Completion;
use crate::outcome::Outcome;
use crate::queues::QueueReport;
use crate::result::Failure;
use crate::schedule::{Pass, Schedule};
use crate::size::checked_len;
use crate::stopwatch::Stopwatch;
use worker::{Supply, Worker};

/// Completions after which a completion doorbell is rung, as far as the ring allows.
const BATCH: u32 = 32;

/// Rings have so many entries at least: a page of submission entries. In a ring of one command's depth each completion has
/// to be reported before the next command; a doorbell is most of the time of an I/O where a hypervisor traps it.
const LEAST_ENTRIES: u32 = 64;

/// Runs a job from host threads.
pub(crate) struct HostRunner<'a> {
    ssd: &'a Ssd,
    job: &'a Job,
    /// The I/Os of the measurement, where they are drawn before it.
    drawn: Option<Arc<Vec<u64>>>,
}

impl<'a> HostRunner<'a> {
    pub(crate) fn new(ssd: &'a Ssd, job: &'a Job) -> HostRunner<'a> {
        HostRunner { ssd, job, drawn: drawn(job).map(Arc::new) }
    }
}

impl Runner for HostRunner<'_> {
    fn prepare(&self) -> Result<(), RunError> {
        Ok(())
    }

    fn fill(&self, control: &Control) -> Result<Outcome, RunError> {
        run(self, Pass::Fill, control)
    }

    /// A run of its own: neither its I/Os nor its time are those of the measurement.
    fn warm_up(&self, control: &Control) -> Result<(), RunError> {
        run(self, Pass::Ramp, control).map(drop)
    }

    fn measure(&self, control: &Control) -> Result<Outcome, RunError> {
        run(self, Pass::Measure, control)
    }

    fn check(&self, control: &Control) -> Result<Outcome, RunError> {
        run(self, Pass::Check, control)
    }
}

/// One thread's share of the queues.
struct Share<'a> {
    ssd: &'a Ssd,
    job: &'a Job,
    drawn: Option<Arc<Vec<u64>>>,
    pass: Pass,
    control: &'a Control,
    /// Which of the run's queues, and how many there are.
    queues: Vec<u64>,
    cpu: Option<usize>,
}

/// Runs one pass of `job` on `threads` threads.
fn run(runner: &HostRunner<'_>, pass: Pass, control: &Control) -> Result<Outcome, RunError> {
    let HostRunner { ssd, job, drawn } = runner;
    let threads = job.threads.min(usize::from(job.queues));
    let shares = (0..threads).map(|thread| Share {
        ssd,
        job,
        drawn: drawn.clone(),
        pass,
        control,
        queues: (0..u64::from(job.queues)).skip(thread).step_by(threads).collect(),
        cpu: job.cpus.get(thread % job.cpus.len().max(1)).copied(),
    });
    let outcomes: Vec<Result<Outcome, RunError>> = std::thread::scope(|scope| {
        let running: Vec<_> = shares.map(|share| scope.spawn(move || share.run())).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut total = Outcome::default();
    for outcome in outcomes {
        total.merge(outcome?);
    }
    Ok(total)
}

impl Share<'_> {
    fn run(&self) -> Result<Outcome, RunError> {
        if let Some(cpu) = self.cpu {
            cpu::pin(cpu)?;
        }
        let mut workers = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            workers.push(self.worker(*queue)?);
        }
        let before = cpu::thread_time();
        let mut clock = Drive::new(self.ssd, self.job, self.pass, self.control);
        clock.drive(&mut workers)?;
        let mut total = Outcome { runtime_ns: clock.measured_ns(), ..Outcome::default() };
        for (mut worker, index) in workers.into_iter().zip(&self.queues) {
            if let Some(why) = &clock.ended {
                worker.abandon(why);
            }
            let (queue, outcome) = worker.finish();
            let costs = outcome.costs.unwrap_or_default();
            total.queues.push(QueueReport::of_host(*index, queue.qid().0, &costs));
            total.merge(outcome);
            // Of a controller that is gone it is known already.
            if let (Err(error), None) = (queue.delete(), &clock.ended) {
                self.keep(&mut total, &error);
            }
        }
        total.cpu_time_ns = Some(cpu::nanoseconds(cpu::thread_time() - before));
        Ok(total)
    }

    /// What was measured is not lost to a queue that cannot be deleted.
    fn keep(&self, total: &mut Outcome, error: &warpbell::Error) {
        let (nsid, op) = (self.job.nsid.get(), "end of a queue".to_owned());
        total.fail(|| Failure { op, nsid, lba: None, status: error.to_string() });
    }

    fn worker(&self, queue: u64) -> Result<Worker<'_>, RunError> {
        let job = self.job;
        let schedule = Schedule::new(job, self.pass, (queue, job.queues.into()), self.drawn.clone());
        let queue = self.queue()?;
        let data = DataPointers::new(queue.buffer().as_ref(), self.ssd.data_path().data_pointer);
        Ok(Worker::new(Supply { job, queue, data, schedule }))
    }

    fn queue(&self) -> Result<HostQueue, RunError> {
        let bytes = u64::from(self.job.flights_per_queue()) * self.job.bs_bytes;
        let buffer = self.ssd.buffer(checked_len(bytes)?)?;
        let options = IoQueueOptions::new()
            .timeout(self.job.timeout)
            .sq_batch(BATCH)
            .cq_batch(BATCH)
            .retry(RetryPolicy::of(self.ssd.identify(), self.job.retries));
        let notification = match self.job.completion {
            Completion::Poll => Notification::Polled,
            Completion::Interrupt => Notification::Interrupt,
        };
        let entries = self.job.ring_entries().max(LEAST_ENTRIES).min(self.ssd.controller().max_entries());
        let spec = HostQueueSpec::new(entries, options).notification(notification);
        Ok(self.ssd.host_queue_with(spec, buffer)?)
    }
}

/// I/Os that a thread counts for all at once, at most.
const LUMP: u64 = 256;

/// So long they wait for that at most: a slow SSD has no lumps.
const LUMP_TIME: Duration = Duration::from_micros(20);

/// So long nothing completes before the controller is asked whether it is still there, and before each further time.
const QUIET: Duration = Duration::from_millis(100);

/// Time of one thread: when no I/O begins any more.
struct Drive<'a> {
    ssd: &'a Ssd,
    clock: Stopwatch<'a>,
    /// I/Os at the last one that completed, or question, and when that was.
    quiet: (u64, Duration),
    /// Why nothing will complete any more.
    ended: Option<String>,
    end: Option<Duration>,
    /// Whether its I/Os are those of the measurement.
    measures: bool,
    closed: bool,
    control: &'a Control,
    /// I/Os that are counted for all, and when they were.
    counted: (u64, Duration),
    bytes: u64,
}

impl<'a> Drive<'a> {
    fn new(ssd: &'a Ssd, job: &Job, pass: Pass, control: &'a Control) -> Drive<'a> {
        let end = match pass {
            Pass::Ramp => Some(job.ramp),
            Pass::Measure => job.runtime,
            Pass::Fill | Pass::Check => None,
        };
        Drive {
            ssd,
            clock: Stopwatch::start(ssd),
            quiet: (0, Duration::ZERO),
            ended: None,
            end,
            measures: pass == Pass::Measure,
            closed: false,
            control,
            counted: (0, Duration::ZERO),
            bytes: job.bs_bytes,
        }
    }

    fn drive(&mut self, workers: &mut [Worker<'_>]) -> Result<(), RunError> {
        if self.measures {
            self.control.begin(self.ssd);
        }
        if let ([worker], Stopwatch::Real(_)) = (&mut *workers, self.clock) {
            worker.poll_in_a_row();
        }
        self.tick(workers);
        while self.ended.is_none() && !workers.iter().all(Worker::is_done) {
            let mut due = false;
            for worker in workers.iter_mut() {
                due |= worker.step(self.clock, |now| self.is_eventful(now))?;
            }
            if due {
                self.tick(workers);
            } else {
                self.clock.wait();
            }
            if let Some(now) = self.clock.virtual_now() {
                self.control.sample(self.ssd, now);
            }
        }
        self.count(workers.iter().map(Worker::ios).sum(), self.clock.elapsed());
        if self.measures {
            self.control.end(self.ssd);
        }
        Ok(())
    }

    /// Counts the I/Os since the last time for all, unless the controller does.
    fn count(&mut self, ios: u64, now: Duration) {
        let more = ios - self.counted.0;
        self.counted = (ios, now);
        if self.ssd.soft().is_some() {
            return;
        }
        match self.measures {
            true => self.control.add_measured(more, more * self.bytes),
            false => self.control.add(more, more * self.bytes),
        }
    }

    /// Whether so many I/Os are to be counted for all.
    fn lump_is_due(&self, ios: u64, now: Duration) -> bool {
        let (counted, at) = self.counted;
        ios >= counted + LUMP || ios > counted && now.saturating_sub(at) >= LUMP_TIME
    }

    /// Whether I/Os end to begin at this time.
    #[inline]
    fn is_eventful(&self, now: u64) -> bool {
        self.control.stopped() || self.end.is_some_and(|end| now >= cpu::nanoseconds(end))
    }

    /// Acts on the time, and on the wish to stop.
    #[inline]
    fn tick(&mut self, workers: &mut [Worker<'_>]) {
        let now = workers.iter().map(Worker::now).max().unwrap_or(0);
        let ios = workers.iter().map(Worker::ios).sum();
        self.ask_after(ios, Duration::from_nanos(now));
        if self.lump_is_due(ios, Duration::from_nanos(now)) {
            self.count(ios, Duration::from_nanos(now));
        }
        if !self.closed && self.is_eventful(now) {
            self.closed = true;
            workers.iter_mut().for_each(Worker::close);
        }
    }

    /// Asks a controller that completes nothing whether it is still there: commands of one that is gone would each be
    /// waited for until their deadline.
    fn ask_after(&mut self, ios: u64, now: Duration) {
        if ios != self.quiet.0 {
            self.quiet = (ios, now);
        } else if matches!(self.clock, Stopwatch::Real(_)) && now.saturating_sub(self.quiet.1) >= QUIET {
            self.quiet.1 = now;
            self.ended = self.ssd.controller().check_health().err().map(|error| error.to_string());
        }
    }

    fn measured_ns(&self) -> u64 {
        cpu::nanoseconds(self.clock.elapsed())
    }
}
