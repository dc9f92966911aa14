//! Kernels `bench_volume*`: random reads of several SSDs as one volume.

use warpbell::{AttachOptions, Attachment, Sharing, Ssd, Target, Volume};
use warpbell_kernels::abi::{self, BenchArgs, BenchVolumeArgs, NamespaceRef};

use super::{LaunchMemory, MARGIN};
use crate::array::Array;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::error::RunError;
use crate::job::{Job, LANES};
use crate::launch::{Block, Kernel, run_over};
use crate::options::VolumePolicy;
use crate::outcome::Outcome;
use crate::size::checked_len;

/// Warps of a block: more than one, so that warps of a block may differ from each other, or not.
pub(crate) const VOLUME_BLOCK_WARPS: u32 = 2;
/// Queues of each SSD.
const QUEUES: u32 = 2;

/// What reads a volume: a block for each SSD.
pub(crate) struct VolumeReads<'a> {
    /// Its SSDs, and what was attached there.
    pub(crate) ssds: &'a [Ssd],
    pub(crate) queues: &'a [Attachment],
    pub(crate) volume: &'a Volume,
    /// Its depth is that of each SSD.
    pub(crate) job: &'a Job,
}

/// Reads in flight of a launch over so many SSDs, and the warps that have them.
fn depth_and_warps(job: &Job, ssds: usize) -> (u32, u32) {
    (job.iodepth * ssds as u32, VOLUME_BLOCK_WARPS * ssds as u32)
}

impl VolumeReads<'_> {
    /// Queues for it, on each SSD for all reads: chance may have them all there.
    pub(crate) fn attach(ssds: &[Ssd], target: Target, job: &Job) -> Result<Vec<Attachment>, RunError> {
        let (depth, warps) = depth_and_warps(job, ssds.len());
        let attach = |ssd: &Ssd| {
            let options = AttachOptions::new()
                .target(target)
                .nsid(Some(job.nsid))
                .queues(QUEUES)
                // `by_cta` in volume.cuh says how many.
                .warps(QUEUES * VOLUME_BLOCK_WARPS * (ssds.len() as u32).div_ceil(QUEUES))
                .iodepth(depth.min(ssd.controller().max_entries() - 1))
                .commands_per_lane(Some(depth.div_ceil(warps).div_ceil(LANES)))
                .sharing(Sharing::Shared)
                .timeout(job.timeout);
            ssd.attach(&options)
        };
        Ok(ssds.iter().map(attach).collect::<Result<_, _>>()?)
    }

    /// Reads until the job's time is over. How many reads each lane has done is beside what they were like.
    pub(crate) fn measure(
        &self,
        policy: VolumePolicy,
        control: &Control,
    ) -> Result<(Outcome, Vec<u64>), RunError> {
        let (job, target, name) = (self.job, self.queues[0].target(), policy.kernel());
        let (depth, warps) = depth_and_warps(job, self.ssds.len());
        target.prepare(name)?;
        let units = depth.div_ceil(warps);
        let buffer = self.volume.buffer(checked_len(u64::from(warps * units) * job.bs_bytes)?)?;
        let memory = LaunchMemory::new(target, warps as usize, true)?;
        let args = BenchVolumeArgs {
            bench: BenchArgs { iodepth: depth, units_per_warp: units, ..self.args(&memory) },
            volume: self.volume.as_ref()?,
            buffer: buffer.as_ref(),
            ..BenchVolumeArgs::new()
        };
        let kernel = Kernel {
            name,
            args,
            warps,
            together: true,
            mailbox: &memory.mailbox,
            limit: job.runtime.map(|runtime| runtime + job.timeout + MARGIN),
            uses: memory.lend(warpbell::Regions::new()),
        };
        let block = Block { warps: VOLUME_BLOCK_WARPS, memory: 0 };
        let over = (self.volume, self.ssds);
        let launched = run_over(over, &kernel, block, (job.threads, &job.cpus), control)?;
        let mut outcome = memory.outcome(job, "read")?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        Ok((outcome, memory.reads_of_lanes()?))
    }

    fn args(&self, memory: &LaunchMemory) -> BenchArgs {
        let (job, block_bytes) = (self.job, u64::from(self.volume.block_bytes()));
        let block_shift = self.volume.block_bytes().trailing_zeros();
        BenchArgs {
            ns: NamespaceRef { block_shift, ..self.queues[0].namespace() },
            mailbox: memory.mailbox.address(),
            results: memory.results.address(),
            histograms: memory.histograms.as_ref().map_or(0, Array::address),
            units: self.volume.blocks() * block_bytes / job.bs_bytes,
            seed: job.seed,
            runtime_ns: job.runtime.map_or(0, nanoseconds),
            timeout_ns: nanoseconds(job.timeout),
            blocks_per_io: (job.bs_bytes / block_bytes) as u32,
            read_percent: 100,
            pattern: abi::PATTERN_RANDOM,
            ..BenchArgs::new()
        }
    }
}
