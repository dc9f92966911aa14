//! Why a point is not measured.

use warpbell_kernels::abi::BENCH_VOLUME_MEMBERS;

use crate::job::JobError;
use crate::trace::COMMANDS_MAX;

/// Why there is no point of such sizes on these SSDs: its row is skipped with this reason.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{bytes} bytes: must be a multiple of the block size, {block} bytes")]
    Block { bytes: u64, block: u64 },
    #[error("{bytes} bytes: one command moves at most {most}")]
    Command { bytes: u64, most: u64 },
    #[error("{bytes} bytes: the namespace has {all}")]
    Namespace { bytes: u64, all: u64 },
    #[error("{bytes} bytes: the volume has {all}")]
    Volume { bytes: u64, all: u64 },
    #[error("{bytes} bytes: above the chunk, {chunk} bytes, and a kernel's read is of one SSD")]
    AboveChunk { bytes: u64, chunk: u64 },
    #[error("{bytes} bytes: reads cross chunks of {chunk} bytes, and a kernel's read is of one SSD")]
    CrossesChunks { bytes: u64, chunk: u64 },
    #[error("{depth} in flight: a queue of {ring} entries, the most of this SSD, has room for {}", ring - 1)]
    Depth { depth: u32, ring: u32 },
    #[error("{bytes} bytes of the state, and {ssd} has {room}")]
    State { bytes: u64, ssd: String, room: u64 },
    #[error("{count} {what} take {bytes} bytes, and the namespace has {room}")]
    Items { what: &'static str, count: u64, bytes: u64, room: u64 },
    #[error("{COMMANDS_MAX} commands or more: choose a smaller --ops")]
    Commands,
    #[error("{ssds} SSDs: the kernel has room for {BENCH_VOLUME_MEMBERS}")]
    Members { ssds: usize },
    #[error(transparent)]
    Job(#[from] JobError),
}
