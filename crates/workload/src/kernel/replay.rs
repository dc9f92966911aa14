//! Kernel `replay`: a recording's commands again.

use warpbell::Regions;
use warpbell_kernels::abi::{ReplayArgs, ReplayCommand, ReplayResult};

use super::{KernelRunner, LaunchMemory, MARGIN};
use crate::array::Array;
use crate::control::Control;
use crate::cpu::nanoseconds;
use crate::error::RunError;
use crate::job::operation;
use crate::launch::Kernel;
use crate::options::ReplayTiming;
use crate::outcome::Outcome;
use crate::result::Failure;
use crate::trace::SsdReplay;

/// What the kernel is given beside what every launch is.
struct Lists {
    commands: Array<ReplayCommand>,
    firsts: Array<u64>,
    totals: Array<ReplayResult>,
}

impl Lists {
    fn lend(&self, regions: Regions) -> Regions {
        self.totals.lend(self.firsts.lend(self.commands.lend(regions)))
    }
}

impl KernelRunner<'_> {
    /// Submits the commands of `replay` again, by kernel `name`.
    pub(super) fn replay(
        &self,
        name: &'static str,
        replay: &SsdReplay,
        control: &Control,
    ) -> Result<Outcome, RunError> {
        let job = self.job;
        let memory = LaunchMemory::new(self.attachment.target(), job.warps as usize, true)?;
        let lists = self.lists(replay)?;
        let args = ReplayArgs {
            ns: self.attachment.namespace(),
            buffer: self.buffer.as_ref(),
            mailbox: memory.mailbox.address(),
            results: memory.results.address(),
            totals: lists.totals.address(),
            histograms: memory.histograms.as_ref().map_or(0, Array::address),
            commands: lists.commands.address(),
            firsts: lists.firsts.address(),
            timeout_ns: nanoseconds(job.timeout),
            iodepth: job.iodepth,
            units_per_warp: self.units_per_warp,
            unit_blocks: job.io_blocks() as u32,
            // On time means alone: a command that is due does not wait for others.
            batch: u32::from(replay.timing == ReplayTiming::Recorded),
            ..ReplayArgs::new()
        };
        let kernel = Kernel {
            name,
            args,
            warps: job.warps,
            together: true,
            mailbox: &memory.mailbox,
            limit: match replay.timing {
                ReplayTiming::Asap => None,
                ReplayTiming::Recorded => {
                    Some(replay.recorded_time().saturating_add(job.timeout).saturating_add(MARGIN))
                }
            },
            uses: lists.lend(self.uses(&memory)),
        };
        let launched = self.launcher.run(self.attachment, &kernel, control)?;
        let mut outcome = memory.outcome(job, operation(job.rwmixread))?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        self.add_totals(&lists, control, &mut outcome)?;
        Ok(outcome)
    }

    fn lists(&self, replay: &SsdReplay) -> Result<Lists, RunError> {
        let target = self.attachment.target();
        let (commands, firsts) = replay.for_kernel();
        let lists = Lists {
            commands: Array::new(target, commands.len())?,
            firsts: Array::new(target, firsts.len())?,
            totals: Array::new(target, self.job.warps as usize)?,
        };
        lists.commands.put(0, &commands)?;
        lists.firsts.put(0, &firsts)?;
        Ok(lists)
    }

    /// Bytes, flushes and trims; and commands that were never submitted, which are failures unless somebody asked to stop.
    fn add_totals(&self, lists: &Lists, control: &Control, outcome: &mut Outcome) -> Result<(), RunError> {
        let (mut read, mut written, mut left) = (0, 0, 0);
        lists.totals.for_each(|_, total| {
            read += total.bytes_read;
            written += total.bytes_written;
            left += total.left;
            outcome.flushes += total.flushes;
            outcome.trims.0 += total.trims;
            outcome.trims.1 += total.blocks_trimmed;
        })?;
        outcome.moved = Some((read, written));
        if left > 0 && !control.stopped() {
            outcome.fail(|| Failure {
                op: "replay".to_owned(),
                nsid: self.job.nsid.get(),
                lba: None,
                status: format!("{left} commands were not submitted: their queue or all buffers were lost"),
            });
            outcome.errors += left - 1;
        }
        Ok(())
    }
}
