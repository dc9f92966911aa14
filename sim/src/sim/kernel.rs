//! The kernel of the simulation, `sim/kernels/sim.cu`, and what it shares with the host.

use std::path::Path;
use std::sync::OnceLock;

use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::launches::TestVariant;

/// Most blocks of one command.
pub const MOST_BLOCKS: usize = 4;

/// `Op::opcode`: nothing.
pub const NONE: u32 = 0;
/// `Op::opcode`: Flush.
pub const FLUSH: u32 = 1;
/// `Op::opcode`: Write.
pub const WRITE: u32 = 2;
/// `Op::opcode`: Read.
pub const READ: u32 = 3;
/// `Op::flags`: Force Unit Access.
pub const FUA: u32 = 1;
/// `Op::flags`: given up right after its submission.
pub const ABANDON: u32 = 2;

/// `Args::flags`: ask again with a copy of each consumed token.
pub const STALE_TOKENS: u32 = 1;
/// `Args::flags`: whole batches only.
pub const WHOLE_BATCHES: u32 = 2;
/// `Args::flags`: look once before waiting.
pub const POLL_FIRST: u32 = 4;
/// `Args::flags`: go over to the successor of a lost queue.
pub const SWITCH_TO_SUCCESSOR: u32 = 8;
/// `Args::flags`: there, ask for lost commands again.
pub const ASK_AGAIN: u32 = 16;
/// `Args::flags`: ask again for what the library's policy calls retryable.
pub const RETRY: u32 = 32;

/// In `Record::answers`: the library would have it tried once more than it may be.
pub const UNBOUNDED: u32 = 0x100;

/// Changes of queues by one warp that are noted.
pub const MOVES: usize = 64;

/// A command that a lane is to carry out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Op {
    /// What the first block of a write brings; block i gets `value + i`.
    pub value: u64,
    /// The first block.
    pub lba: u64,
    /// How many.
    pub blocks: u32,
    /// `NONE`, `FLUSH`, `WRITE` or `READ`.
    pub opcode: u32,
    /// `FUA`, `ABANDON`.
    pub flags: u32,
    /// Zero.
    pub pad: u32,
}

/// What a lane noted about one try of a command; times are of the virtual clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Record {
    /// Statuses returned for it.
    pub answers: u32,
    /// The first.
    pub status: u32,
    /// Its command identifier; all ones if it was not submitted.
    pub cid: u32,
    /// Its queue: the identifier, and above it the low half of the queue's epoch.
    pub queue: u32,
    /// When the lane turned to it; 0: never.
    pub asked: u64,
    /// When the submission returned.
    pub submitted: u64,
    /// When the last wait for it began.
    pub waited: u64,
    /// When it was answered.
    pub answered: u64,
    /// First word of each block read.
    pub first: [u64; MOST_BLOCKS],
    /// Last word of each block read.
    pub last: [u64; MOST_BLOCKS],
}

/// What a warp noted about going over from a lost queue to its successor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Move {
    /// When it was begun.
    pub from: u64,
    /// When it was over.
    pub to: u64,
    /// The status that it came to, plus 1; 0: nothing was noted here.
    pub status: u32,
    /// The queue before it, as in [`Record`].
    pub queue: u32,
    /// The queue after it.
    pub next_queue: u32,
    /// Zero.
    pub pad: u32,
}

/// The kernel's argument.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Args {
    /// `abi::ABI_VERSION`.
    pub abi_version: u32,
    /// Bytes of this struct.
    pub size: u32,
    /// The namespace.
    pub ns: abi::NamespaceRef,
    /// `slot_bytes` for each warp, lane and command in flight.
    pub buffer: abi::BufferRef,
    /// Address of the `Op`s: by warp, lane, command.
    pub ops: u64,
    /// Address of the `Record`s: as the `Op`s, and then by try.
    pub records: u64,
    /// Address of the `Move`s: [`MOVES`] of each warp.
    pub moves: u64,
    /// Timeout of a wait.
    pub timeout_ns: u64,
    /// Timeout of a submission.
    pub submit_timeout_ns: u64,
    /// Timeout of the wait for a successor.
    pub successor_timeout_ns: u64,
    /// Commands of a lane.
    pub commands: u32,
    /// Tries of a command at most.
    pub tries: u32,
    /// Lanes that submit together.
    pub batch: u32,
    /// Commands that a lane keeps in flight.
    pub async_depth: u32,
    /// Bytes of the buffer for one command.
    pub slot_bytes: u32,
    /// `STALE_TOKENS` and its like.
    pub flags: u32,
    /// Warps of the launch count from here on when they look for their queue and identifiers.
    pub first_warp: u32,
    /// Waits for a successor that may fail before a warp ends.
    pub patience: u32,
}

fn source() -> Result<Variant, warpbell_kernels::Error> {
    Ok(Variant::file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/sim.cu"))?)
}

/// The kernel over the device library as it is; compiled once.
pub fn module() -> anyhow::Result<Module> {
    static MODULE: OnceLock<Module> = OnceLock::new();
    if let Some(module) = MODULE.get() {
        return Ok(module.clone());
    }
    let module = source()?.loaded()?;
    Ok(MODULE.get_or_init(|| module).clone())
}

/// The kernel over the device library as it is, built as [`mutant`] builds.
pub fn plain() -> anyhow::Result<Module> {
    Ok(source()?.quick().loaded()?)
}

/// The kernel over the device library with one of its rules off.
pub fn mutant(switch: &str) -> anyhow::Result<Module> {
    Ok(source()?.quick().mutate(switch).loaded()?)
}
