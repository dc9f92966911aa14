//! How many blocks are there at the same time.
//!
//! A GPU starts as many blocks as it has room for, and another whenever one has ended: blocks that wait for others that
//! have not begun wait for ever. The CPU target does the same, with the room of a large GPU.

use super::Launch;
use crate::Error;

const LANES: u32 = 32;
/// Threads, in whole warps, that the CPU target has room for: as many as 132 multiprocessors of 2048 each, an H100.
const RESIDENT_THREADS: u32 = 132 * 2048;

/// The most threads of a block that the executor takes.
const BLOCK_THREADS: u32 = 1024;

/// Blocks of `block` threads that the CPU target has room for at a time.
pub fn resident_limit(block: u32) -> u32 {
    RESIDENT_THREADS / block.clamp(1, BLOCK_THREADS).next_multiple_of(LANES)
}

impl Launch {
    /// Blocks that each of `workers` has room for; an error where blocks that are to meet have too little.
    pub(super) fn residents(&self, workers: u32) -> Result<u32, Error> {
        let most = match self.resident_blocks {
            0 => resident_limit(self.block),
            each => each.saturating_mul(workers),
        };
        if self.cooperative && self.grid > most {
            let (kernel, blocks, block) = (self.kernel().to_owned(), self.grid, self.block);
            return Err(Error::TooManyBlocks { kernel, blocks, block, most });
        }
        Ok(most.div_ceil(workers.max(1)))
    }
}
