//! Kernel `bench_batch`: blocks of threads that send their I/Os in batches.

use warpbell_kernels::abi::{BENCH_BLOCK_BYTES, BenchBatchArgs};

use super::{KernelRunner, LaunchMemory, Work};
use crate::control::Control;
use crate::error::RunError;
use crate::job::{LANES, operation};
use crate::launch::{Block, Kernel};
use crate::outcome::Outcome;

impl KernelRunner<'_> {
    /// Does `work` in blocks of `threads`.
    pub(super) fn in_batches(
        &self,
        threads: u32,
        work: &Work,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        let job = self.job;
        let memory = LaunchMemory::new(self.attachment.target(), job.all_warps() as usize, true)?;
        let args = BenchBatchArgs {
            bench: self.args(work, &memory),
            submitters: job.submitters(threads),
            ..BenchBatchArgs::new()
        };
        let kernel = Kernel {
            name: "bench_batch",
            args,
            warps: job.all_warps(),
            together: true,
            mailbox: &memory.mailbox,
            limit: self.limit(work),
            uses: self.uses(&memory),
        };
        let block = Block { warps: threads / LANES, memory: BENCH_BLOCK_BYTES };
        let launched = self.launcher.run_in_blocks(self.attachment, &kernel, block, control)?;
        let mut outcome = memory.outcome(job, operation(work.read_percent))?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        Ok(outcome)
    }
}
