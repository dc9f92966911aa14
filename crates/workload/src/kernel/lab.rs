//! Kernels of the protocol laboratory: the job of `bench`, by another protocol.

use warpbell_kernels::abi::{
    BLOCK_THREADS_MAX, LAB_ARRAYS, LAB_ENTRY_WORDS, LAB_LINE_WORDS, LAB_LINES, LabArgs,
};

use super::{KernelRunner, LaunchMemory, Work};
use crate::array::Array;
use crate::control::Control;
use crate::error::RunError;
use crate::job::{Job, JobError, LANES, operation};
use crate::launch::{Block, Kernel};
use crate::options::Protocol;
use crate::outcome::Outcome;

/// 64-bit words that a protocol has for each queue of so many ring entries.
pub(crate) fn queue_words(ring_entries: u32) -> u32 {
    LAB_LINES * LAB_LINE_WORDS + LAB_ARRAYS * LAB_ENTRY_WORDS * ring_entries
}

/// How a launch is cut.
struct Shape {
    kernel: &'static str,
    /// Warps, those that only serve included.
    warps: u32,
    /// Warps of a block, where that is the protocol's affair.
    block: Option<u32>,
}

impl Shape {
    fn of(protocol: Protocol, job: &Job) -> Shape {
        let queues = u32::from(job.queues);
        let (kernel, servers, block) = match protocol {
            Protocol::Turns => ("lab_turns", 0, None),
            Protocol::TurnsAlone => ("lab_turns_alone", 0, None),
            Protocol::Marks => ("lab_marks", 0, None),
            Protocol::MarksOwn => ("lab_marks_own", 0, None),
            Protocol::Lockstep => ("lab_lockstep", 0, Some(largest_block(job.warps / queues))),
            Protocol::Service => ("lab_service", queues, None),
        };
        Shape { kernel, warps: job.warps + servers, block }
    }
}

/// Its kernels deliver what they find in the completion ring at once.
fn unflushed(protocol: Protocol) -> JobError {
    JobError::Conflict {
        flag: "protocol",
        value: protocol.to_string(),
        reason: "the protocols of the laboratory do not flush: completions and data must lie in one memory (--rings, \
                 --data)"
            .to_owned(),
    }
}

/// Warps of the largest blocks that `warps` can be cut into evenly.
fn largest_block(warps: u32) -> u32 {
    let most = BLOCK_THREADS_MAX / LANES;
    (1..=most).rev().find(|share| warps.is_multiple_of(*share)).unwrap_or(1)
}

impl KernelRunner<'_> {
    /// Does what `work` says by `protocol`.
    pub(super) fn lab(
        &self,
        protocol: Protocol,
        work: &Work,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        let (job, target) = (self.job, self.attachment.target());
        if self.attachment.order().flushes() {
            return Err(unflushed(protocol).into());
        }
        let shape = Shape::of(protocol, job);
        let memory = LaunchMemory::new(target, shape.warps as usize, true)?;
        let words = queue_words(job.ring_entries());
        let state = Array::<u64>::new(target, usize::from(job.queues) * words as usize)?;
        let args = LabArgs {
            bench: self.args(work, &memory),
            state: state.address(),
            queue_words: words,
            warps: job.warps,
            ..LabArgs::new()
        };
        let kernel = Kernel {
            name: shape.kernel,
            args,
            warps: shape.warps,
            together: true,
            mailbox: &memory.mailbox,
            limit: self.limit(work),
            uses: state.lend(self.uses(&memory)),
        };
        let launched = match shape.block {
            Some(warps) => {
                let block = Block { warps, memory: 0 };
                self.launcher.run_in_blocks(self.attachment, &kernel, block, control)?
            }
            None => self.launcher.run(self.attachment, &kernel, control)?,
        };
        let mut outcome = memory.outcome(job, operation(work.read_percent))?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_large_as_they_evenly_can_be() {
        for (warps, block) in [(1, 1), (6, 6), (8, 8), (9, 3), (11, 1), (12, 6), (64, 8)] {
            assert_eq!(largest_block(warps), block, "{warps} warps");
        }
    }
}
