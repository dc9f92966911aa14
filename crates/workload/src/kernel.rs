//! Runs jobs by kernels: `bench` or `replay`, and `verify` around it.

mod agent;
mod array;
mod batch;
mod lab;
mod lanes;
mod replay;
mod traced;
mod volume;

pub use agent::AgentReport;
pub use array::{AccessCost, ArrayReport};
pub(crate) use volume::{VOLUME_BLOCK_WARPS, VolumeReads};

use std::time::Duration;

use warpbell::{
    AttachOptions, Attachment, Buffer, OpenTarget, Regions, SharedMemory, Ssd, Target, describe_status,
};
use warpbell_hw::Lba;
use warpbell_kernels::abi::{self, BenchArgs, WarpResult};
use warpbell_nvme::command::QueuePriority;

use crate::array::{Array, crc_tables, mailbox};
use crate::bench::Runner;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::distribution::drawn;
use crate::error::RunError;
use crate::job::{HISTOGRAM_DIRECTIONS, Job, LANES, operation};
use crate::launch::{Block, Kernel, Launcher};
use crate::options::{Api, Sharing};
use crate::outcome::Outcome;
use crate::recovery::{Trouble, patience};
use crate::result::{Failure, VerifyReport};
use crate::size::checked_len;
use crate::unit::WrongBlock;

pub(crate) use lab::queue_words as protocol_words;

/// Values in memory of a target.
fn listed(target: &OpenTarget, values: &[u64]) -> Result<Array<u64>, RunError> {
    let list = Array::new(target, values.len())?;
    list.put(0, values)?;
    Ok(list)
}

/// Runs a job by kernels.
pub(crate) struct KernelRunner<'a> {
    job: &'a Job,
    attachment: &'a Attachment,
    launcher: Launcher<'a>,
    buffer: Buffer,
    patience: Duration,
    units_per_warp: u32,
    tables: Array<[u32; 256]>,
    /// Where the I/Os of a file lie.
    lbas: Option<Array<u64>>,
    /// Where those of the measurement lie, in their order, where they are drawn before it.
    drawn: Option<Array<u64>>,
    /// Which words of an array were stored.
    stored: Option<Array<u64>>,
}

/// What a kernel may take beyond its runtime to come to its end.
const MARGIN: Duration = Duration::from_secs(30);

impl<'a> KernelRunner<'a> {
    /// Queues for `job`.
    pub(crate) fn attach(ssd: &Ssd, target: Target, job: &Job) -> Result<Attachment, RunError> {
        KernelRunner::attach_as(ssd, target, job, QueuePriority::URGENT)
    }

    /// The same with a priority.
    pub(crate) fn attach_as(
        ssd: &Ssd,
        target: Target,
        job: &Job,
        priority: QueuePriority,
    ) -> Result<Attachment, RunError> {
        let options = AttachOptions::new()
            .target(target)
            .nsid(Some(job.nsid))
            .queues(job.queues.into())
            .warps(job.queue_warps())
            .iodepth(job.iodepth)
            .commands_per_lane(Some(job.tokens_per_lane))
            .sharing(match job.sharing {
                Sharing::Exclusive => warpbell::Sharing::Exclusive,
                Sharing::Shared => warpbell::Sharing::Shared,
            })
            .timeout(job.timeout)
            .priority(priority)
            .recovery(job.recover)
            .trace(job.trace());
        Ok(ssd.attach(&options)?)
    }

    /// Buffers for `job` on queues that were attached for it.
    pub(crate) fn new(
        ssd: &'a Ssd,
        job: &'a Job,
        attachment: &'a Attachment,
    ) -> Result<KernelRunner<'a>, RunError> {
        let bytes = u64::from(job.warps) * u64::from(job.largest_share()) * job.bs_bytes;
        let buffer = attachment.buffer(checked_len(bytes)?)?;
        let launcher = Launcher::new(ssd, job.threads, &job.cpus);
        let drawn: Option<Vec<u64>> =
            drawn(job).map(|drawn| drawn.into_iter().map(|unit| job.lba(unit)).collect());
        Ok(KernelRunner {
            job,
            attachment,
            launcher,
            buffer,
            patience: patience(ssd.recovery().policy()),
            units_per_warp: job.largest_share(),
            tables: crc_tables(attachment.target())?,
            lbas: job.file.as_ref().map(|file| listed(attachment.target(), &file.lbas)).transpose()?,
            drawn: drawn.map(|lbas| listed(attachment.target(), &lbas)).transpose()?,
            stored: array::stored_words(attachment.target(), job)?,
        })
    }

    /// In virtual time `turn` is called whenever all warps wait, for who else uses the SSD.
    pub(crate) fn beside<'b>(self, turn: &'b (dyn Fn() + 'b)) -> KernelRunner<'b>
    where
        'a: 'b,
    {
        KernelRunner { launcher: self.launcher.beside(turn), ..self }
    }

    /// How long kernels wait for the host where a queue is lost, or a command timed out.
    fn patience(&self) -> Duration {
        if self.job.recover { self.patience } else { Duration::ZERO }
    }

    /// How long the last I/O may take, with all that may be tried for it.
    fn longest_io(&self) -> Duration {
        let tries = self.job.timeout.saturating_mul(self.job.retries.saturating_add(1));
        tries.saturating_add(self.patience()).saturating_add(MARGIN)
    }

    /// Does the job by another kernel that has the arguments of `bench`; where `shared` is given, in blocks of one warp with
    /// so many bytes of shared memory.
    pub(crate) fn measure_by(
        &self,
        name: &'static str,
        shared: Option<u32>,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        self.attachment.target().prepare(name)?;
        let block = shared.map(|memory| Block { warps: 1, memory });
        self.bench_in(name, &Work::of(self.job), block, control)
    }

    /// Kernel `name` does what `work` says.
    fn bench(&self, name: &'static str, work: &Work, control: &Control) -> Result<Outcome, RunError> {
        self.bench_in(name, work, None, control)
    }

    fn bench_in(
        &self,
        name: &'static str,
        work: &Work,
        block: Option<Block>,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        self.launched(name, work, block, control).map(|(outcome, _)| outcome)
    }

    /// The same; what it has left behind is beside it.
    fn launched(
        &self,
        name: &'static str,
        work: &Work,
        block: Option<Block>,
        control: &Control,
    ) -> Result<(Outcome, LaunchMemory), RunError> {
        let job = self.job;
        let memory = LaunchMemory::new(self.attachment.target(), job.warps as usize, true)?;
        let kernel = Kernel {
            name,
            args: self.args(work, &memory),
            warps: job.warps,
            together: true,
            mailbox: &memory.mailbox,
            limit: self.limit(work),
            uses: self.uses(&memory),
        };
        let launched = match block {
            Some(block) => self.launcher.run_in_blocks(self.attachment, &kernel, block, control)?,
            None => self.launcher.run(self.attachment, &kernel, control)?,
        };
        let mut outcome = memory.outcome(job, operation(work.read_percent))?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        Ok((outcome, memory))
    }

    /// How long a launch that does `work` may take, where that is known.
    fn limit(&self, work: &Work) -> Option<Duration> {
        work.runtime.map(|runtime| runtime.saturating_add(self.longest_io()))
    }

    /// What every launch uses.
    fn uses(&self, memory: &LaunchMemory) -> Regions {
        let uses = memory.lend(self.tables.lend(Regions::new()));
        self.lbas.iter().chain(&self.drawn).fold(uses, |uses, lbas| lbas.lend(uses))
    }

    /// Arguments of a launch that does `work`.
    fn args(&self, work: &Work, memory: &LaunchMemory) -> BenchArgs {
        let job = self.job;
        let histograms = memory.histograms.as_ref().map_or(0, Array::address);
        // What was drawn before is walked through as a range of its own.
        let drawn = self.drawn.as_ref().filter(|_| work.random);
        let (units, random) =
            drawn.map_or((job.io_slots(), work.random), |drawn| (drawn.count() as u64, false));
        BenchArgs {
            ns: self.attachment.namespace(),
            buffer: self.buffer.as_ref(),
            mailbox: memory.mailbox.address(),
            results: memory.results.address(),
            histograms,
            crc_tables: self.tables.address(),
            first_lba: job.first_block(),
            units,
            seed: job.seed,
            io_limit: work.ios.unwrap_or(0),
            runtime_ns: work.runtime.map_or(0, nanoseconds),
            timeout_ns: nanoseconds(job.timeout),
            blocks_per_io: job.io_blocks() as u32,
            iodepth: job.iodepth,
            units_per_warp: self.units_per_warp,
            read_percent: u32::from(work.read_percent),
            pattern: if random { abi::PATTERN_RANDOM } else { abi::PATTERN_SEQUENTIAL },
            api: if job.api == Api::Raw { abi::API_RAW } else { abi::API_IO },
            verify: u32::from(job.verify.is_some()),
            recover_ns: nanoseconds(self.patience()),
            lbas: drawn.or(self.lbas.as_ref()).map_or(0, Array::address),
            retries: job.retries,
            batch: job.gather.unwrap_or(0),
            ..BenchArgs::new()
        }
    }

    /// Does `work` by the kernel of the job's interface.
    fn work(&self, work: &Work, control: &Control) -> Result<Outcome, RunError> {
        let job = self.job;
        match (job.agents, job.block, job.protocol) {
            (Some(agents), _, _) => self.through_agents(agents, work, control),
            (None, Some(block), _) => self.in_batches(block, work, control),
            (None, None, Some(protocol)) => self.lab(protocol, work, control),
            (None, None, None) => self.bench("bench", work, control),
        }
    }
}

/// A kernel of the file that has those of a measurement.
fn measuring(job: &Job) -> &'static str {
    match (&job.replay, job.trace_events, &job.array) {
        (Some(_), None, _) => "replay",
        (Some(_), Some(_), _) => "replay_traced",
        (None, Some(_), _) => "bench_traced",
        (None, None, Some(_)) => "bench_array_plain",
        (None, None, None) if job.agents.is_some() => "bench_agent",
        (None, None, None) if job.block.is_some() => "bench_batch",
        (None, None, None) if job.protocol.is_some() => "lab_turns",
        (None, None, None) => "bench",
    }
}

/// What a launch of `bench` does.
struct Work {
    runtime: Option<Duration>,
    ios: Option<u64>,
    read_percent: u8,
    random: bool,
}

impl Work {
    /// The job itself.
    fn of(job: &Job) -> Work {
        Work {
            runtime: job.runtime,
            ios: job.io_limit(),
            read_percent: job.rwmixread,
            random: job.rw.random(),
        }
    }

    /// Every unit of the range once.
    fn on_each_unit(job: &Job, read_percent: u8) -> Work {
        Work { runtime: None, ios: Some(job.io_slots()), read_percent, random: false }
    }
}

impl Runner for KernelRunner<'_> {
    fn prepare(&self) -> Result<(), RunError> {
        Ok(self.attachment.target().prepare(measuring(self.job))?)
    }

    fn fill(&self, control: &Control) -> Result<Outcome, RunError> {
        self.work(&Work::on_each_unit(self.job, 0), control)
    }

    fn warm_up(&self, control: &Control) -> Result<(), RunError> {
        let work = Work { runtime: Some(self.job.ramp), ios: None, ..Work::of(self.job) };
        self.work(&work, control).map(drop)
    }

    fn measure(&self, control: &Control) -> Result<Outcome, RunError> {
        let before = self.counters()?;
        let traced = self.job.trace_events.is_some();
        let mut outcome = match &self.job.replay {
            Some(replay) => self.replay(if traced { "replay_traced" } else { "replay" }, replay, control)?,
            None if traced => self.bench("bench_traced", &Work::of(self.job), control)?,
            None => match &self.job.array {
                Some(shape) => self.words(shape, control)?,
                None => self.work(&Work::of(self.job), control)?,
            },
        };
        self.add_trace(&mut outcome)?;
        self.add_queues(&before, &mut outcome)?;
        Ok(outcome)
    }

    fn check(&self, control: &Control) -> Result<Outcome, RunError> {
        match &self.job.array {
            Some(shape) => self.check_words(shape, control),
            None => self.work(&Work::on_each_unit(self.job, 100), control),
        }
    }
}

/// What a launch leaves behind.
#[derive(Clone)]
struct LaunchMemory {
    mailbox: SharedMemory,
    results: Array<WarpResult>,
    histograms: Option<Array<[u32; abi::HISTOGRAM_BUCKETS as usize]>>,
}

impl LaunchMemory {
    fn new(target: &OpenTarget, warps: usize, latency: bool) -> Result<LaunchMemory, RunError> {
        let histograms = warps * LANES as usize * HISTOGRAM_DIRECTIONS;
        Ok(LaunchMemory {
            mailbox: mailbox(target)?,
            results: Array::new(target, warps)?,
            histograms: latency.then(|| Array::new(target, histograms)).transpose()?,
        })
    }

    /// Lets a launch have it.
    fn lend(&self, uses: Regions) -> Regions {
        let uses = self.results.lend(uses);
        self.histograms.iter().fold(uses, |uses, histograms| histograms.lend(uses))
    }

    /// How many reads each lane has timed.
    fn reads_of_lanes(&self) -> Result<Vec<u64>, RunError> {
        let mut reads = Vec::new();
        if let Some(histograms) = &self.histograms {
            histograms.for_each(|row, counts| {
                if row.is_multiple_of(HISTOGRAM_DIRECTIONS) {
                    reads.push(counts.iter().map(|count| u64::from(*count)).sum());
                }
            })?;
        }
        Ok(reads)
    }

    fn outcome(&self, job: &Job, operation: &str) -> Result<Outcome, RunError> {
        let mut outcome = Outcome::default();
        let (mut start, mut end) = (u64::MAX, 0);
        self.results.for_each(|_, result| {
            if result.end_ns > 0 {
                (start, end) = (start.min(result.start_ns), end.max(result.end_ns));
            }
            add(&mut outcome, job, operation, result);
        })?;
        outcome.runtime_ns = end.saturating_sub(start);
        if let Some(histograms) = &self.histograms {
            // A lane's row of reads, then its row of writes.
            histograms.for_each(|row, counts| {
                outcome.latency_of(row % HISTOGRAM_DIRECTIONS == 1).merge_kernel(counts.iter().copied());
            })?;
        }
        Ok(outcome)
    }
}

/// Adds what one warp did. It reports the first failure and the first wrong block only.
fn add(outcome: &mut Outcome, job: &Job, operation: &str, warp: &WarpResult) {
    outcome.reads += warp.reads;
    outcome.writes += warp.writes;
    outcome.trouble.add(&Trouble::of(warp));
    if warp.errors > 0 {
        outcome.fail(|| Failure {
            op: operation.to_owned(),
            nsid: job.nsid.get(),
            lba: Some(warp.error_lba),
            status: describe_status(warp.error_status),
        });
        outcome.errors += warp.errors - 1;
    }
    let mut verify = VerifyReport { blocks: warp.reads * job.io_blocks(), ..Default::default() };
    if warp.mismatches > 0 {
        let (expected, actual) = (warp.expected, warp.actual);
        verify.wrong(job.nsid, WrongBlock { lba: Lba(warp.mismatch_lba), expected, actual });
        verify.mismatches = warp.mismatches;
    }
    outcome.merge_verify(verify);
}
