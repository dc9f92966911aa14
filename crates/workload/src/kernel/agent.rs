//! Kernel `bench_agent`: compute warps whose I/O is done by agents.

use serde::{Deserialize, Serialize};
use warpbell_kernels::abi::{AgentCounts, BENCH_REQUEST_QUEUE_BYTES, BenchAgentArgs};

use super::{KernelRunner, LaunchMemory, Work};
use crate::array::Array;
use crate::control::Control;
use crate::error::RunError;
use crate::job::operation;
use crate::launch::Kernel;
use crate::outcome::Outcome;

/// What agents did, and what the warps that they serve were spared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Requests that they submitted.
    pub requests: u64,
    /// Times that they submitted some.
    pub batches: u64,
    /// Requests that they answered without submitting them.
    pub refused: u64,
    /// Polls of queues by warps that are no agents; nothing where nobody counts, as on a GPU.
    pub compute_polls: Option<u64>,
}

impl KernelRunner<'_> {
    /// Does `work` through that many agents.
    pub(super) fn through_agents(
        &self,
        agents: u32,
        work: &Work,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        let (job, target) = (self.job, self.attachment.target());
        let memory = LaunchMemory::new(target, job.all_warps() as usize, true)?;
        let request_queues: Array<[u8; BENCH_REQUEST_QUEUE_BYTES]> = Array::new(target, job.warps as usize)?;
        let counts: Array<AgentCounts> = Array::new(target, agents as usize)?;
        let polls: Array<u64> = Array::new(target, job.warps as usize)?;
        let args = BenchAgentArgs {
            bench: self.args(work, &memory),
            request_queues: request_queues.address(),
            counts: counts.address(),
            polls: polls.address(),
            agents,
            ..BenchAgentArgs::new()
        };
        let kernel = Kernel {
            name: "bench_agent",
            args,
            warps: job.all_warps(),
            together: true,
            mailbox: &memory.mailbox,
            limit: self.limit(work),
            uses: polls.lend(counts.lend(request_queues.lend(self.uses(&memory)))),
        };
        let launched = self.launcher.run(self.attachment, &kernel, control)?;
        let mut outcome = memory.outcome(job, operation(work.read_percent))?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        let mut report = AgentReport { compute_polls: Some(0), ..AgentReport::default() };
        counts.for_each(|_, count| {
            report.requests += count.requests;
            report.batches += count.batches;
            report.refused += count.refused;
        })?;
        polls.for_each(|_, polls| {
            let counted = report.compute_polls.filter(|_| *polls != u64::MAX);
            report.compute_polls = counted.map(|sum| sum + polls);
        })?;
        outcome.agents = Some(report);
        Ok(outcome)
    }
}
