//! A trace as a workload: its commands again, each warp's in their order.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;

use super::block::BlockRequest;
use crate::distribution::Distribution;
use crate::job::{JobError, Limits};
use crate::options::{Access, Api, BenchOptions, ReplayTiming, Sharing};
use crate::size::ByteSize;
use warpbell_hw::Lba;

/// The opcode of a trim.
const TRIM: u8 = NvmOpcode::DATASET_MANAGEMENT.0;

/// One command to submit again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayCommand {
    /// When it was submitted, from the first command of all.
    pub at_ns: u64,
    /// Flush, write, read, or Dataset Management, which deallocates these blocks.
    pub opcode: u8,
    /// First block.
    pub lba: Lba,
    /// Blocks; 0 of a flush.
    pub blocks: u32,
}

/// What to submit again on one SSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdReplay {
    /// The file that it was read from.
    pub file: String,
    /// When commands are submitted.
    pub timing: ReplayTiming,
    /// The device of the recording.
    pub recorded_on: String,
    /// Commands over all warps.
    pub commands: u64,
    /// Bytes that they move.
    pub bytes: u64,
    /// Events that the recording lacks: commands may be among them.
    pub missing_events: u64,
    /// Bytes of a block.
    #[serde(skip)]
    pub block_size_bytes: u32,
    /// Queue pairs of the recording.
    #[serde(skip)]
    pub queues: u32,
    /// Whether warps shared them.
    #[serde(skip, default = "unknown")]
    pub sharing: Sharing,
    /// Outstanding commands per queue.
    #[serde(skip)]
    pub iodepth: u32,
    /// The commands of each warp, in order.
    #[serde(skip)]
    pub warps: Vec<Vec<ReplayCommand>>,
    /// Of a block trace: requests whose blocks are not known yet, in the place of commands.
    #[serde(skip)]
    pub requests: Vec<BlockRequest>,
}

/// What results do not say: they have it in the job.
fn unknown() -> Sharing {
    Sharing::Exclusive
}

impl SsdReplay {
    fn all(&self) -> impl Iterator<Item = &ReplayCommand> {
        self.warps.iter().flatten()
    }

    /// Whether any command writes.
    pub fn writes(&self) -> bool {
        let writes = |opcode: u8| [NvmOpcode::WRITE.0, TRIM].contains(&opcode);
        self.all().any(|command| writes(command.opcode))
            || self.requests.iter().any(|request| writes(request.opcode))
    }

    /// Blocks of the largest command that moves them, at least one.
    pub fn largest(&self) -> u32 {
        self.all()
            .filter(|command| command.opcode != TRIM)
            .map(|command| command.blocks)
            .max()
            .unwrap_or(0)
            .max(1)
    }

    /// How long the recording took, where that bounds how long the replay takes.
    pub fn recorded_time(&self) -> Duration {
        match self.timing {
            ReplayTiming::Asap => Duration::ZERO,
            ReplayTiming::Recorded => {
                Duration::from_nanos(self.all().map(|command| command.at_ns).max().unwrap_or(0))
            }
        }
    }

    /// Commands and bounds as kernels take them.
    pub(crate) fn for_kernel(&self) -> (Vec<abi::ReplayCommand>, Vec<u64>) {
        let timed = self.timing == ReplayTiming::Recorded;
        let command = |command: &ReplayCommand| abi::ReplayCommand {
            lba: command.lba.get(),
            due_ns: if timed { command.at_ns } else { 0 },
            blocks: command.blocks,
            opcode: command.opcode.into(),
        };
        let mut firsts = vec![0];
        firsts.extend(self.warps.iter().scan(0, |next, warp| {
            *next += warp.len() as u64;
            Some(*next)
        }));
        (self.all().map(command).collect(), firsts)
    }

    pub(super) fn refused(&self, reason: String) -> JobError {
        JobError::Conflict { flag: "replay", value: self.file.clone(), reason }
    }

    /// Whether the namespace takes all of its commands. A trace of kernels has no blocks of what is trimmed: those lie in
    /// the data of its commands.
    fn check(&self, limits: &Limits, most_blocks: u32, trims: bool) -> Result<(), JobError> {
        if self.block_size_bytes != limits.block_size {
            let (recorded, here) = (self.block_size_bytes, limits.block_size);
            return Err(self.refused(format!(
                "it was recorded on {} with blocks of {recorded} bytes, {} has blocks of {here} bytes",
                self.recorded_on, limits.nsid
            )));
        }
        if self.commands == 0 {
            return Err(self.refused(format!("it has no commands of {}", self.recorded_on)));
        }
        for ReplayCommand { lba, blocks, opcode, .. } in self.all() {
            if lba.get().checked_add((*blocks).into()).is_none_or(|end| end > limits.blocks) {
                return Err(self.refused(format!(
                    "a command for {blocks} blocks at {lba} leaves {} of {} blocks; \
                     replay it on an SSD at least as large as {}",
                    limits.nsid, limits.blocks, self.recorded_on
                )));
            }
            if *blocks > most_blocks && *opcode != TRIM {
                return Err(self.refused(format!(
                    "a command for {blocks} blocks at {lba} is above what this controller takes at once, \
                     {most_blocks} blocks"
                )));
            }
            let known = [NvmOpcode::FLUSH.0, NvmOpcode::READ.0, NvmOpcode::WRITE.0].contains(opcode);
            if !(known || trims && *opcode == TRIM) {
                return Err(self.refused(format!(
                    "a command with opcode {opcode:#04x} at {lba}: of a trace of kernels only flush, read and write \
                     can be replayed"
                )));
            }
        }
        Ok(())
    }
}

/// The options of the run that a replay is: queues, warps and depth are the recording's.
pub(crate) fn adapted(
    options: &BenchOptions,
    replay: &SsdReplay,
    limits: &Limits,
    most_blocks: u32,
) -> Result<BenchOptions, JobError> {
    let cut = (!replay.requests.is_empty()).then(|| replay.for_blocks(limits, most_blocks)).transpose()?;
    let cut = cut.map(Arc::new);
    let replay = cut.as_deref().unwrap_or(replay);
    replay.check(limits, most_blocks, cut.is_some())?;
    if options.retries != 0 {
        let (value, reason) = (options.retries.to_string(), "a replay submits each command once".to_owned());
        return Err(JobError::Conflict { flag: "retries", value, reason });
    }
    let reads = replay.all().any(|command| command.opcode == NvmOpcode::READ.0);
    let rw = match (reads, replay.writes()) {
        (true, true) => Access::RandRw,
        (false, true) => Access::RandWrite,
        _ => Access::RandRead,
    };
    let queues = u16::try_from(replay.queues).map_err(|_| replay.refused("too many queues".to_owned()))?;
    let block = u64::from(limits.block_size);
    Ok(BenchOptions {
        rw,
        rwmixread: None,
        random_distribution: Distribution::Random,
        bs: ByteSize(u64::from(replay.largest()) * block),
        iodepth: replay.iodepth,
        queues,
        warps: Some(replay.warps.len() as u32),
        sharing: replay.sharing,
        api: Api::Io,
        runtime: None,
        io_limit: Some(ByteSize(replay.bytes.max(1))),
        size: None,
        offset: ByteSize(0),
        ramp: Duration::ZERO,
        verify: None,
        replay: cut.clone().or_else(|| options.replay.clone()),
        ..options.clone()
    })
}

#[cfg(test)]
mod tests {
    use warpbell_hw::Nsid;

    use super::*;

    fn replay() -> SsdReplay {
        let command = |at_ns, opcode, lba, blocks| ReplayCommand { at_ns, opcode, lba, blocks };
        SsdReplay {
            file: "t.json".to_owned(),
            timing: ReplayTiming::Recorded,
            recorded_on: "soft:size=1m".to_owned(),
            commands: 3,
            bytes: 9 * 512,
            missing_events: 0,
            block_size_bytes: 512,
            queues: 1,
            sharing: Sharing::Shared,
            iodepth: 8,
            warps: vec![
                vec![command(0, 2, Lba(0), 8), command(700, 2, Lba(2047), 1)],
                vec![command(40, 0, Lba(0), 0)],
            ],
            requests: Vec::new(),
        }
    }

    fn limits(blocks: u64) -> Limits {
        Limits {
            nsid: Nsid(1),
            blocks,
            block_size: 512,
            exact_bytes: None,
            max_transfer_bytes: Some(4096),
            max_entries: 1024,
            queues: 4,
            wide_cids: false,
            trim_blocks: None,
        }
    }

    #[test]
    fn kernels_get_each_warps_part_and_its_times() {
        let (commands, firsts) = replay().for_kernel();
        assert_eq!((commands.len(), firsts), (3, vec![0, 2, 3]));
        assert_eq!((commands[1].lba, commands[1].due_ns, commands[2].blocks), (2047, 700, 0));
        let asap = SsdReplay { timing: ReplayTiming::Asap, ..replay() };
        assert!(asap.for_kernel().0.iter().all(|command| command.due_ns == 0));
        assert_eq!((asap.recorded_time(), replay().recorded_time().as_nanos()), (Duration::ZERO, 700));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let options = BenchOptions::default();
        let adapt = |replay: &SsdReplay, limits: &Limits, most| adapted(&options, replay, limits, most);
        let fits = adapt(&replay(), &limits(2048), 8).unwrap();
        assert_eq!((fits.queues, fits.warps, fits.iodepth, fits.bs), (1, Some(2), 8, ByteSize(4096)));
        assert_eq!(fits.rw, Access::RandRead);
        let said =
            |replay: &SsdReplay, limits: &Limits, most| adapt(replay, limits, most).unwrap_err().to_string();
        let small = said(&replay(), &limits(2047), 8);
        assert!(small.starts_with("--replay t.json: a command for 1 blocks at LBA 2047 leaves namespace 1"));
        assert!(said(&replay(), &limits(2048), 7).contains("takes at once, 7 blocks"));
        let other = Limits { block_size: 4096, ..limits(2048) };
        assert!(said(&replay(), &other, 8).contains("blocks of 512 bytes, namespace 1 has blocks of 4096"));
        let mut strange = replay();
        strange.warps[0][0].opcode = 9;
        assert!(said(&strange, &limits(2048), 8).contains("opcode 0x09"));
        let insistent = BenchOptions { retries: 2, ..BenchOptions::default() };
        let once = adapted(&insistent, &replay(), &limits(2048), 8).unwrap_err().to_string();
        assert_eq!(once, "--retries 2: a replay submits each command once");
    }
}
