//! Kernels `check_*`: the calls of each part of the device library, with contents that the kernel looks at, on
//! exclusive and on shared queues, on threads or on a GPU.

use std::time::Duration;

use anyhow::{Context, ensure};
use warpbell::describe_status;
use warpbell::{AttachOptions, Sharing, Ssd, Target};
use warpbell_kernels::abi::{CHECK_WARP_BLOCKS, CheckArgs, CheckResult, NamespaceRef};
use warpbell_kernels::cpu::{Idle, Threads};
use warpbell_nvme::NvmOpcode;
use warpbell_workload::Array;

use warpbell_hw::{Lba, Nsid};
use warpbell_sim::TestLaunch;
use warpbell_sim::threaded::sized;

const WARPS: u32 = 4;
const WARPS_OF_BLOCK: u32 = 2;
/// Identifiers of a lane, as the kernels have them.
const TOKENS: u32 = 4;
/// Longer than any run takes, under any sanitizer.
const LIMIT: Duration = Duration::from_secs(100);
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
    /// The same, with tokens.
    Tokens,
    /// Neighbouring requests as one command.
    Coalesced,
    /// Requests of any size.
    Requests,
    /// Requests in an order.
    Order,
    /// Batches of blocks and of warps.
    Batches,
    /// Agents, with request_queues in shared memory.
    Mail,
    /// Tiles, streamed into shared memory.
    Stream,
}

impl Calls {
    /// All of them.
    pub const ALL: [Calls; 10] = [
        Calls::Each,
        Calls::Outstanding,
        Calls::Commands,
        Calls::Tokens,
        Calls::Coalesced,
        Calls::Requests,
        Calls::Order,
        Calls::Batches,
        Calls::Mail,
        Calls::Stream,
    ];

    fn kernel(self) -> &'static str {
        match self {
            Calls::Each => "check_each",
            Calls::Outstanding => "check_outstanding",
            Calls::Commands => "check_commands",
            Calls::Tokens => "check_tokens",
            Calls::Coalesced => "check_coalesced",
            Calls::Requests => "check_requests",
            Calls::Order => "check_order",
            Calls::Batches => "check_batches",
            Calls::Mail => "check_mail",
            Calls::Stream => "check_stream",
        }
    }

    /// The blocks that a command may move: few where requests shall take several commands.
    fn most_blocks(self) -> u32 {
        match self {
            Calls::Requests => 5,
            Calls::Batches => 2,
            _ => u32::MAX,
        }
    }

    /// Dynamic shared memory of a block.
    fn shared_bytes(self) -> u32 {
        match self {
            // For each warp an `io_batch<64>::storage`, and a word.
            Calls::Batches => WARPS_OF_BLOCK * (64 * 84 + 128) + 16,
            // A `request_queue<2>`.
            Calls::Mail => (1 + 9 * 2) * 128,
            // A word, the storage of three slots, and two stages of four blocks.
            Calls::Stream => 128 + 1280 + 2 * 4 * 4096,
            _ => 0,
        }
    }

    /// Right answers that the lanes of a warp get.
    fn answers(self, sharing: Sharing, rounds: u64, warp: usize) -> u64 {
        match self {
            Calls::Each if sharing == Sharing::Exclusive => rounds * 12 * 32,
            // Those of all lanes, of a tile of eight and of one lane alone, too.
            Calls::Each => (0..rounds).map(|round| 10 * 32u64.div_ceil(round % 4 + 1) + 64 + 16 + 5).sum(),
            Calls::Outstanding => (rounds * 7 + 2) * 32,
            Calls::Commands => rounds * 17 * 32,
            // Six of each lane's own, seven of the warp.
            Calls::Tokens => rounds * 13 * 32,
            Calls::Coalesced => rounds * 6 * 32,
            Calls::Requests => (rounds * 18 + 2) * 32,
            Calls::Order => rounds * 39 * 32,
            // Adding, all, and each: twice of a block's 64 requests, then of a warp's 64.
            Calls::Batches => rounds * 2 * (2 * 3 + 5) * 32,
            // The agent looks once at what it did.
            Calls::Mail if warp.is_multiple_of(WARPS_OF_BLOCK as usize) => 32,
            Calls::Mail => rounds * 10 * 32,
            // Writing, 32 tiles, and all of them.
            Calls::Stream => rounds * 34 * 32,
        }
    }

    /// Write commands, where their number is what matters.
    fn writes(self, rounds: u64) -> Option<u64> {
        let of_round = match self {
            // 32 blocks as one, 24 as eight, and 32 of two buffers.
            Calls::Coalesced => u64::from(WARPS) * 11,
            // 96 blocks, twice 48, and those of lanes, 5 at most in each.
            Calls::Requests => u64::from(WARPS) * (20 + 2 * 10 + 4 * 9),
            // Of four requests one is a flush, and one takes two.
            Calls::Batches => u64::from(2 * WARPS / WARPS_OF_BLOCK + WARPS) * 64,
            _ => return None,
        };
        Some(rounds * of_round)
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
    /// Write commands, if the controller counts them.
    writes: Option<u64>,
    nsid: u32,
    block_bytes: usize,
}

/// Makes the calls of one part, in blocks of the namespace that are the part's own. Nobody else writes to a soft
/// controller meanwhile, whose commands are counted.
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
        let queues = self.ssd.attach(
            &AttachOptions::new()
                .target(self.target)
                .queues(if self.sharing == Sharing::Exclusive { WARPS } else { 1 })
                .warps(WARPS)
                .commands_per_lane(Some(TOKENS))
                .sharing(self.sharing),
        )?;
        let target = queues.target();
        let ns = queues.namespace();
        let buffer = queues.buffer(PART_BLOCKS as usize * (1 << ns.block_shift))?;
        let results: Array<CheckResult> = Array::new(target, WARPS as usize)?;
        let stop = target.shared(size_of::<u32>())?;
        let args = CheckArgs {
            ns: NamespaceRef { max_blocks: ns.max_blocks.min(self.calls.most_blocks()), ..ns },
            buffer: buffer.as_ref(),
            results: results.address(),
            stop: stop.address(),
            first_lba: self.first_lba(),
            seed: 7 + self.first_lba(),
            rounds: self.rounds,
            ..CheckArgs::new()
        };
        let before = self.written();
        let threads = Threads::new().workers(2).idle(Idle::YieldAfter(8));
        let launch = queues.launch_bytes(&target.module()?, self.calls.kernel(), &args)?;
        let launch = launch.grid(WARPS / WARPS_OF_BLOCK).block(32 * WARPS_OF_BLOCK).threads(threads);
        let launch = launch
            .shared_bytes(self.calls.shared_bytes())
            .keep((buffer, results.clone()))
            .stop_flag(&stop, 0)?;
        launch.limit(LIMIT).start()?.join()?;
        let writes = self.written().zip(before).map(|(now, then)| now - then);
        Ok(Ran { warps: results.all()?, writes, nsid: ns.nsid, block_bytes: 1 << ns.block_shift })
    }

    /// Write commands so far, of a soft controller.
    fn written(&self) -> Option<u64> {
        Some(self.ssd.soft()?.statistics().commands(NvmOpcode::WRITE))
    }

    /// Each call was made, and answered as it should be. How many answers that were.
    fn judge(&self, ran: &Ran) -> anyhow::Result<u64> {
        let mut answers = 0;
        for (warp, found) in ran.warps.iter().enumerate() {
            let done = self.calls.answers(self.sharing, u64::from(self.rounds), warp);
            let said = describe_status(found.status);
            let right = CheckResult { done, ..CheckResult::new() };
            ensure!(*found == right, "warp {warp}: not {done} right answers: {found:?}: {said}");
            answers += done;
        }
        if let (Some(writes), Some(expected)) = (ran.writes, self.calls.writes(u64::from(self.rounds))) {
            ensure!(writes == expected, "{writes} commands wrote, not {expected}");
        }
        if self.calls == Calls::Commands {
            self.judge_deallocated(ran)?;
        }
        Ok(answers)
    }

    /// Of each warp's first blocks, one for each lane, the even lanes' were deallocated, all of them and no others. A
    /// soft controller keeps zeros there.
    fn judge_deallocated(&self, ran: &Ran) -> anyhow::Result<()> {
        let Some(soft) = self.ssd.soft() else { return Ok(()) };
        for warp in 0..u64::from(WARPS) {
            for lane in 0..32 {
                let mut block = vec![0; ran.block_bytes];
                let lba = self.first_lba() + warp * u64::from(CHECK_WARP_BLOCKS) + lane;
                soft.peek(Nsid(ran.nsid), Lba(lba), &mut block)?;
                let (is_zero, even) = (block.iter().all(|byte| *byte == 0), lane % 2 == 0);
                ensure!(is_zero == even, "warp {warp}, lane {lane}: deallocated: {even}, zeros: {is_zero}");
            }
        }
        Ok(())
    }
}
