//! Runs jobs by kernels: `bench`, and `verify` around it.

use std::time::Duration;

use warpbell::hw::{Nsid, Window};
use warpbell::kernels::abi::{self, BenchArgs, Mailbox, VerifyArgs, WarpResult};
use warpbell::{AttachOptions, Attachment, Buffer, Ssd, Target};

use crate::array::{Array, crc_tables};
use crate::bench::Runner;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::data::checked_len;
use crate::error::RunError;
use crate::job::{HISTOGRAM_DIRECTIONS, Job, LANES};
use crate::launch::{Kernel, Launcher};
use crate::options::{Api, Sharing};
use crate::outcome::Outcome;
use crate::result::{Failure, VerifyReport};
use crate::status::describe;
use crate::unit::WrongBlock;

/// Runs a job by kernels.
pub(crate) struct KernelRunner<'a> {
    job: &'a Job,
    attachment: &'a Attachment,
    launcher: Launcher<'a>,
    buffer: Buffer,
    units_per_warp: u32,
    tables: Window,
}

impl<'a> KernelRunner<'a> {
    /// Queues for `job`.
    pub(crate) fn attach(ssd: &Ssd, job: &Job) -> Result<Attachment, RunError> {
        let options = AttachOptions {
            nsid: Some(Nsid(job.nsid)),
            queues: job.queues.into(),
            warps: job.warps,
            iodepth: job.iodepth,
            tokens: Some(job.tokens_per_lane),
            sharing: match job.sharing {
                Sharing::Exclusive => warpbell::Sharing::Exclusive,
                Sharing::Shared => warpbell::Sharing::Shared,
            },
            deadline: job.deadline,
            ..AttachOptions::default()
        };
        Ok(ssd.attach(&options)?)
    }

    /// Buffers for `job` on queues that were attached for it.
    pub(crate) fn new(
        target: Target,
        ssd: &'a Ssd,
        job: &'a Job,
        attachment: &'a Attachment,
    ) -> Result<KernelRunner<'a>, RunError> {
        let bytes = u64::from(job.warps) * u64::from(job.units_per_warp()) * job.bs_bytes;
        let buffer = attachment.buffer(checked_len(bytes)?)?;
        let launcher = Launcher { target, threads: job.threads, cpus: &job.cpus, stepped: ssd.stepped() };
        Ok(KernelRunner {
            job,
            attachment,
            launcher,
            buffer,
            units_per_warp: job.largest_share(),
            tables: crc_tables()?,
        })
    }

    fn verify(&self, mode: u32, control: &Control) -> Result<Outcome, RunError> {
        let memory = LaunchMemory::new(self.job.warps as usize, false)?;
        let args = VerifyArgs {
            ns: self.attachment.namespace(),
            buffer: self.buffer.as_ref(),
            mailbox: memory.mailbox.address(),
            results: memory.results.address(),
            crc_tables: self.tables.as_ptr() as u64,
            first_lba: self.job.first_block(),
            units: self.job.io_slots(),
            seed: self.job.seed,
            deadline_ns: nanoseconds(self.job.deadline),
            blocks_per_io: self.job.io_blocks() as u32,
            mode,
            ..VerifyArgs::new()
        };
        let kernel = Kernel { name: "verify", args, warps: self.job.warps, mailbox: &memory.mailbox };
        let launched = self.launcher.run(self.attachment, &kernel, control)?;
        let mut outcome = memory.outcome(self.job)?;
        outcome.costs = launched.costs;
        Ok(outcome)
    }

    /// Runs for `runtime`, or until `ios` I/Os are done.
    fn bench(
        &self,
        runtime: Option<Duration>,
        ios: Option<u64>,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        let job = self.job;
        let memory = LaunchMemory::new(job.warps as usize, true)?;
        let histograms = memory.histograms.as_ref().map_or(0, Array::address);
        let args = BenchArgs {
            ns: self.attachment.namespace(),
            buffer: self.buffer.as_ref(),
            mailbox: memory.mailbox.address(),
            results: memory.results.address(),
            histograms,
            crc_tables: self.tables.as_ptr() as u64,
            first_lba: job.first_block(),
            units: job.io_slots(),
            seed: job.seed,
            io_limit: ios.unwrap_or(0),
            runtime_ns: runtime.map_or(0, nanoseconds),
            deadline_ns: nanoseconds(job.deadline),
            blocks_per_io: job.io_blocks() as u32,
            iodepth: job.iodepth,
            units_per_warp: self.units_per_warp,
            read_percent: u32::from(job.rwmixread),
            pattern: if job.rw.random() { abi::PATTERN_RANDOM } else { abi::PATTERN_SEQUENTIAL },
            api: if job.api == Api::Raw { abi::API_RAW } else { abi::API_IO },
            verify: u32::from(job.verify.is_some()),
            ..BenchArgs::new()
        };
        let kernel = Kernel { name: "bench", args, warps: job.warps, mailbox: &memory.mailbox };
        let launched = self.launcher.run(self.attachment, &kernel, control)?;
        let mut outcome = memory.outcome(job)?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        Ok(outcome)
    }
}

impl Runner for KernelRunner<'_> {
    fn fill(&self, control: &Control) -> Result<Outcome, RunError> {
        self.verify(abi::VERIFY_WRITE, control)
    }

    fn warm_up(&self, control: &Control) -> Result<(), RunError> {
        self.bench(Some(self.job.ramp), None, control).map(drop)
    }

    fn measure(&self, control: &Control) -> Result<Outcome, RunError> {
        self.bench(self.job.runtime, self.job.io_limit(), control)
    }

    fn check(&self, control: &Control) -> Result<Outcome, RunError> {
        self.verify(abi::VERIFY_CHECK, control)
    }
}

/// What a launch leaves behind.
struct LaunchMemory {
    mailbox: Array<Mailbox>,
    results: Array<WarpResult>,
    histograms: Option<Array<[u32; abi::HISTOGRAM_BUCKETS as usize]>>,
}

impl LaunchMemory {
    fn new(warps: usize, latency: bool) -> Result<LaunchMemory, RunError> {
        let mailbox = Array::new(1)?;
        mailbox.put(0, &Mailbox::new())?;
        let histograms = warps * LANES as usize * HISTOGRAM_DIRECTIONS;
        Ok(LaunchMemory {
            mailbox,
            results: Array::new(warps)?,
            histograms: latency.then(|| Array::new(histograms)).transpose()?,
        })
    }

    fn outcome(&self, job: &Job) -> Result<Outcome, RunError> {
        let mut outcome = Outcome::default();
        let (mut start, mut end) = (u64::MAX, 0);
        for result in self.results.iter() {
            let result = result?;
            if result.end_ns > 0 {
                (start, end) = (start.min(result.start_ns), end.max(result.end_ns));
            }
            add(&mut outcome, job, &result);
        }
        outcome.runtime_ns = end.saturating_sub(start);
        for (row, counts) in self.histograms.iter().flat_map(Array::iter).enumerate() {
            // A lane's row of reads, then its row of writes.
            let write = row % HISTOGRAM_DIRECTIONS == 1;
            outcome.latency_of(write).merge_kernel(counts?);
        }
        Ok(outcome)
    }
}

/// Adds what one warp did. It reports the first failure and the first wrong block only.
fn add(outcome: &mut Outcome, job: &Job, warp: &WarpResult) {
    outcome.reads += warp.reads;
    outcome.writes += warp.writes;
    if warp.errors > 0 {
        outcome.fail(|| Failure {
            op: job.operation().to_owned(),
            nsid: job.nsid,
            lba: Some(warp.error_lba),
            status: describe(warp.error_status),
        });
        outcome.errors += warp.errors - 1;
    }
    let mut verify = VerifyReport { blocks: warp.reads * job.io_blocks(), ..Default::default() };
    if warp.mismatches > 0 {
        let (expected, actual) = (warp.expected, warp.actual);
        verify.wrong(job.nsid, WrongBlock { lba: warp.mismatch_lba, expected, actual });
        verify.mismatches = warp.mismatches;
    }
    outcome.merge_verify(verify);
}
