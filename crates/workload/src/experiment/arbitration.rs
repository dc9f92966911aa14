//! `arbitration`: kernels and the host on one SSD, each on a queue of its own, with weights.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpbell::{Buffer, DeviceName, Ssd};
use warpbell_base::SplitMix64;
use warpbell_nvme::command::QueuePriority;
use warpbell_nvme::feature::Arbitration;
use warpbell_softctl::SoftConfig;

use super::host_reads::{HostReads, Shape};
use super::limits::configuration;
use super::{Figures, Lab, Way, figures_of, figures_of_ios};
use crate::bench::Runner;
use crate::control::Control;
use crate::cpu;
use crate::error::RunError;
use crate::job::Job;
use crate::kernel::KernelRunner;
use crate::latency::LatencyHistogram;
use crate::options::{Api, BenchOptions};
use crate::outcome::Outcome;
use crate::size::ByteSize;
use crate::stopwatch::{ClockKind, Stopwatch};

/// I/Os in flight of each: more than an SSD works on at once, so that both always have some waiting.
pub(super) const DEPTH: u32 = 64;

/// How the two share.
#[derive(Clone, Copy)]
struct Share {
    name: &'static str,
    /// Weights of kernels (class high) and host (class low).
    weights: (u8, u8),
    /// The host's queue is of the urgent class instead.
    urgent: bool,
}

const SHARES: [Share; 4] = [
    Share { name: "weights=1:1", weights: (1, 1), urgent: false },
    Share { name: "weights=3:1", weights: (3, 1), urgent: false },
    Share { name: "weights=1:3", weights: (1, 3), urgent: false },
    Share { name: "host=urgent", weights: (1, 1), urgent: true },
];

impl Share {
    /// The kernels' part of the rate, where both always have commands waiting.
    fn of_kernels(self) -> f64 {
        let (kernels, host) = (f64::from(self.weights.0), f64::from(self.weights.1));
        if self.urgent { 0.0 } else { kernels / (kernels + host) }
    }

    /// One command at a time of each, as many in a round as the weights say.
    fn feature(self) -> Arbitration {
        Arbitration::new().with_hpw_z(self.weights.0 - 1).with_lpw_z(self.weights.1 - 1)
    }

    fn host(self) -> QueuePriority {
        if self.urgent { QueuePriority::URGENT } else { QueuePriority::LOW }
    }
}

/// Its ways, in real time or in virtual time, on an SSD that was opened with weighted round robin.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for share in SHARES {
            ways.push(Box::new(move |lab| weighted(lab, size, share)));
        }
    }
    ways
}

/// Measures with these weights, and restores what was there.
fn weighted(lab: &mut Lab<'_>, size: ByteSize, share: Share) -> Result<(), RunError> {
    let name = format!("{} bs={size}", share.name);
    let shape = match Shape::of_depth(lab, size, lab.iodepth)? {
        Ok(shape) => shape,
        Err(reason) => {
            lab.skip(&name, reason);
            return Ok(());
        }
    };
    let options = BenchOptions { api: Api::Io, ..lab.reads(size) };
    let Some(job) = lab.job(&name, &options)? else { return Ok(()) };
    let before = lab.ssd.controller().arbitration()?;
    lab.ssd.controller().set_arbitration(share.feature())?;
    let measured = both(lab, &name, (shape, share), &job);
    lab.ssd.controller().set_arbitration(before)?;
    measured
}

/// Whether both queues always have commands waiting that the SSD has not fetched: the model holds for no other. A soft
/// controller fetches all at once, unless its profile has slots for fewer than one queue has in flight.
fn has_waiting(lab: &Lab<'_>) -> bool {
    let name = lab.ssd.name();
    let fetches_few = |config: SoftConfig| {
        config.profile.is_some() && config.slots.is_some_and(|slots| slots < lab.iodepth)
    };
    !matches!(name, DeviceName::Soft(_)) || configuration(name).is_some_and(fetches_few)
}

/// Measures both at the same time: a row for each.
fn both(lab: &mut Lab<'_>, name: &str, (shape, share): (Shape, Share), job: &Job) -> Result<(), RunError> {
    let attachment = KernelRunner::attach_as(lab.ssd, lab.target, job, QueuePriority::HIGH)?;
    let runner = KernelRunner::new(lab.ssd, job, &attachment)?;
    runner.prepare()?;
    let host = Host::new(lab, shape, share.host())?;
    let (outcome, host) = match ClockKind::of(lab.ssd) {
        ClockKind::Virtual => in_turn(runner, lab.control, host)?,
        ClockKind::Monotonic => at_once(&runner, lab.control, host)?,
    };
    let run = lab.run_of(outcome, job);
    lab.judge(name, &run)?;
    if lab.control.stopped() {
        return Ok(());
    }
    let kernels = figures_of(&run);
    let host = host.figures();
    let rate = |figures: &Figures| figures.get("iops").unwrap_or(0.0);
    let all = rate(&kernels) + rate(&host);
    for (who, figures, expected) in
        [("kernels", kernels, share.of_kernels()), ("host", host, 1.0 - share.of_kernels())]
    {
        let share = rate(&figures) / all;
        let figures = figures.with("share", share);
        let expected = has_waiting(lab).then_some(expected);
        lab.row(format!("{who} {name}"), figures.with_counted("expected_share", expected));
    }
    Ok(())
}

/// In virtual time both are on this thread: the host has a turn whenever the kernels wait.
fn in_turn<'a>(
    runner: KernelRunner<'_>,
    control: &Control,
    host: Host<'a>,
) -> Result<(Outcome, Host<'a>), RunError> {
    let host = RefCell::new((host, None));
    let turn = || {
        let (host, wrong) = &mut *host.borrow_mut();
        if wrong.is_none() {
            *wrong = host.turn(false).err();
        }
    };
    let outcome = runner.beside(&turn).measure(control)?;
    let (mut host, wrong) = host.into_inner();
    wrong.map_or(Ok(()), Err)?;
    host.drain()?;
    Ok((outcome, host))
}

/// In real time the host has a thread of its own, and ends with the kernels.
fn at_once<'a>(
    runner: &KernelRunner<'_>,
    control: &Control,
    mut host: Host<'a>,
) -> Result<(Outcome, Host<'a>), RunError> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let cpu = cpu::thread_time();
            while !ended.load(Ordering::Relaxed) {
                host.turn(false)?;
            }
            host.drain()?;
            host.cpu = Some(cpu::thread_time() - cpu);
            Ok::<_, RunError>(host)
        });
        let outcome = runner.measure(control);
        ended.store(true, Ordering::Relaxed);
        let host = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((outcome?, host))
    })
}

/// Reads of the host's on a queue with a priority.
struct Host<'a> {
    reads: HostReads<'a>,
    shape: Shape,
    buffer: Buffer,
    random: SplitMix64,
    /// Since its first turn; nothing begins after `runtime`.
    clock: Option<Stopwatch<'a>>,
    ssd: &'a Ssd,
    runtime: Duration,
    depth: usize,
    in_flight: usize,
    latencies: LatencyHistogram,
    elapsed: Duration,
    /// Of its thread, where it has one.
    cpu: Option<Duration>,
}

impl<'a> Host<'a> {
    fn new(lab: &Lab<'a>, shape: Shape, priority: QueuePriority) -> Result<Host<'a>, RunError> {
        let depth = lab.iodepth as usize;
        Ok(Host {
            reads: HostReads::with(lab, shape, lab.iodepth, priority)?,
            shape,
            buffer: lab.ssd.buffer(depth * shape.bytes as usize)?,
            random: SplitMix64::new(lab.options.seed, 1),
            clock: None,
            ssd: lab.ssd,
            runtime: lab.options.runtime,
            depth,
            in_flight: 0,
            latencies: LatencyHistogram::new(),
            elapsed: Duration::ZERO,
            cpu: None,
        })
    }

    /// Takes what has ended, and begins as many anew; the first time all of them.
    fn turn(&mut self, last: bool) -> Result<(), RunError> {
        let Some(clock) = self.clock else {
            self.clock = Some(Stopwatch::start(self.ssd));
            return (0..self.depth).try_for_each(|read| self.begin(read));
        };
        while let Some((read, took)) = self.reads.poll()? {
            self.in_flight -= 1;
            self.elapsed = clock.elapsed();
            self.latencies.record(took.as_nanos() as u64, 1);
            if !last && self.elapsed < self.runtime {
                self.begin(read)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, read: usize) -> Result<(), RunError> {
        self.in_flight += 1;
        let offset = self.shape.draw(&mut self.random);
        self.reads.begin(read, offset, &self.buffer, read as u64 * self.shape.bytes)
    }

    /// Takes all that is in flight.
    fn drain(&mut self) -> Result<(), RunError> {
        while self.in_flight > 0 {
            self.turn(true)?;
            self.clock.iter().for_each(Stopwatch::wait);
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let cpu = self.cpu.unwrap_or_default();
        let figures = figures_of_ios(&self.latencies, self.shape.bytes, self.elapsed, cpu);
        if self.cpu.is_some() { figures } else { figures.without("client_cpu_ns_per_io") }
    }
}
