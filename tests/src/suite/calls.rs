//! Kernels `check_*`: the calls of each part of the device library, with contents that the kernel looks at, on
//! exclusive and on shared queues, on threads or on a GPU.

use std::time::Duration;

use anyhow::{Context, ensure};
use warpbell::kernels::abi::{CHECK_WARP_BLOCKS, CheckArgs, CheckResult};
use warpbell::{AttachOptions, Sharing, Ssd, Target};
use warpbell_kernels::cpu::{Idle, Threads};
use warpbell_nvme::NvmOpcode;
use warpbell_workload::{Array, describe_status};

use crate::threaded::sized;

const WARPS: u32 = 4;
const WARPS_OF_BLOCK: u32 = 2;
/// Identifiers of a lane, as the kernels have them.
const TOKENS: u32 = 4;
/// Longer than any run takes, under any sanitizer.
const LIMIT: Duration = Duration::from_secs(100);
/// Of the namespace, for all parts at once.
pub const CALLS_BLOCKS: u64 = Calls::ALL.len() as u64 * PART_BLOCKS;
/// Of the namespace, for one part.
const PART_BLOCKS: u64 = (WARPS * CHECK_WARP_BLOCKS) as u64;

/// A part of the device library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Reads and writes of lanes, of groups and of one thread.
    Each,
    /// Several commands of a lane at a time.
    Outstanding,
    /// Compare, Write Zeroes, Deallocate, Flush, Force Unit Access.
    Commands,
    /// Neighbouring requests as one command.
    Merged,
}

impl Calls {
    /// All of them.
    pub const ALL: [Calls; 4] = [Calls::Each, Calls::Outstanding, Calls::Commands, Calls::Merged];

    fn kernel(self) -> &'static str {
        match self {
            Calls::Each => "check_each",
            Calls::Outstanding => "check_outstanding",
            Calls::Commands => "check_commands",
            Calls::Merged => "check_merged",
        }
    }

    /// Answers that the lanes of one warp get.
    fn answers(self, sharing: Sharing, rounds: u64) -> u64 {
        match self {
            Calls::Each if sharing == Sharing::Exclusive => rounds * 8 * 32,
            // Those of one lane alone, too.
            Calls::Each => (0..rounds).map(|round| 8 * 32u64.div_ceil(round % 4 + 1) + 5).sum(),
            Calls::Outstanding => (rounds * 7 + 2) * 32,
            Calls::Commands => rounds * 17 * 32,
            Calls::Merged => rounds * 4 * 32,
        }
    }
}

/// One part on one SSD.
struct Setting<'a> {
    target: Target,
    ssd: &'a Ssd,
    calls: Calls,
    sharing: Sharing,
    rounds: u32,
}

/// What all warps saw, and what it cost.
struct Ran {
    warps: Vec<CheckResult>,
    /// Commands of the controller, by opcode, if it is a soft one.
    commands: Option<[u64; 2]>,
}

/// Makes the calls of one part on an SSD that nobody else uses, but other parts.
pub fn calls_on(target: Target, ssd: &Ssd, calls: Calls) -> anyhow::Result<String> {
    let mut answers = 0;
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let rounds = sized(8);
        let setting = Setting { target, ssd, calls, sharing, rounds };
        let ran = setting.run().with_context(|| format!("{calls:?}, {sharing:?}"))?;
        answers += setting.judge(&ran).with_context(|| format!("{calls:?}, {sharing:?}"))?;
    }
    Ok(format!("{answers} answers, exclusive and shared, {}", ssd.data_path()))
}

impl Setting<'_> {
    fn first_lba(&self) -> u64 {
        let part = Calls::ALL.iter().position(|part| *part == self.calls).expect("it is one of them");
        part as u64 * PART_BLOCKS
    }

    fn run(&self) -> anyhow::Result<Ran> {
        let queues = self.ssd.attach(&AttachOptions {
            target: self.target,
            queues: if self.sharing == Sharing::Exclusive { WARPS } else { 1 },
            warps: WARPS,
            tokens: Some(TOKENS),
            sharing: self.sharing,
            ..AttachOptions::default()
        })?;
        let target = queues.target();
        let ns = queues.namespace();
        let buffer = queues.buffer(PART_BLOCKS as usize * (1 << ns.block_shift))?;
        let results: Array<CheckResult> = Array::new(target, WARPS as usize)?;
        let stop = target.shared(size_of::<u32>())?;
        let args = CheckArgs {
            ns,
            buffer: buffer.as_ref(),
            results: results.address(),
            stop: stop.address(),
            first_lba: self.first_lba(),
            seed: 7 + self.first_lba(),
            rounds: self.rounds,
            ..CheckArgs::new()
        };
        let before = self.commands();
        let threads = Threads { workers: 2, idle: Idle::YieldAfter(8), ..Threads::default() };
        let launch = queues.launch(&target.module()?, self.calls.kernel(), &args)?;
        let launch = launch.grid(WARPS / WARPS_OF_BLOCK).block(32 * WARPS_OF_BLOCK).threads(threads);
        let launch = launch.keep((buffer, results.clone())).stop_flag(&stop, 0)?;
        launch.limit(LIMIT).start()?.join()?;
        let commands = self.commands().zip(before).map(|(now, then)| [now[0] - then[0], now[1] - then[1]]);
        Ok(Ran { warps: results.all()?, commands })
    }

    /// Reads and writes so far.
    fn commands(&self) -> Option<[u64; 2]> {
        let counts = self.ssd.soft()?.statistics();
        Some([NvmOpcode::READ, NvmOpcode::WRITE].map(|opcode| counts.commands(opcode)))
    }

    /// Each call was made, and answered as it should be. How many answers that were.
    fn judge(&self, ran: &Ran) -> anyhow::Result<u64> {
        let expected = self.calls.answers(self.sharing, u64::from(self.rounds));
        for (warp, found) in ran.warps.iter().enumerate() {
            let right = CheckResult { done: expected, ..CheckResult::new() };
            let said = describe_status(found.status);
            ensure!(*found == right, "warp {warp}: not {expected} right answers: {found:?}: {said}");
        }
        if let Some(commands) = ran.commands
            && self.calls == Calls::Merged
        {
            // 32 blocks as one command, then 24 as eight.
            let merged = u64::from(self.rounds * WARPS) * 9;
            ensure!(commands == [merged; 2], "reads and writes: {commands:?}, not {merged}");
        }
        Ok(expected * u64::from(WARPS))
    }
}
