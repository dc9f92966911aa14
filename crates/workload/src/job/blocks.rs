//! The checks of `--api batch`: how large the blocks are, and what their warps have in flight.

use warpbell_kernels::abi::BLOCK_THREADS_MAX;

use super::check::{conflict, too_large, too_small};
use super::{JobError, LANES};
use crate::options::{Api, BenchOptions};

/// Threads of a block, where none are named.
pub const DEFAULT_BLOCK: u32 = 128;
/// Command identifiers of a lane: one for the command in flight, and others while those of commands that timed out are
/// out of use.
pub(super) const IDS: u32 = 4;

/// Threads of a block, if blocks are to send together.
pub(super) fn threads(options: &BenchOptions) -> Result<Option<u32>, JobError> {
    if options.api != Api::Batch {
        return match options.block {
            None => Ok(None),
            Some(block) => {
                let reason = format!("only --api batch has blocks, this is --api {}", options.api);
                Err(conflict("block", block, reason))
            }
        };
    }
    let refused = |reason: &str| Err(conflict("api", "batch", reason.to_owned()));
    if options.replay.is_some() {
        return refused("a replay submits command by command; use --api io or raw");
    }
    if options.trace_events.is_some() {
        return refused("batches write no traces; use --api io or raw");
    }
    let block = options.block.unwrap_or(DEFAULT_BLOCK);
    if block < LANES {
        return Err(too_small("block", block, format!("{LANES} threads, one warp")));
    }
    if block > BLOCK_THREADS_MAX {
        return Err(too_large("block", block, format!("{BLOCK_THREADS_MAX} threads")));
    }
    if !block.is_multiple_of(LANES) {
        let reason = format!("must be a multiple of {LANES}, whole warps");
        return Err(conflict("block", block, reason));
    }
    Ok(Some(block))
}

/// Whether so many warps can have the depth in flight: a batch has one command of each lane.
pub(super) fn depth(options: &BenchOptions, warps: u32) -> Result<(), JobError> {
    let queues = u32::from(options.queues);
    let limit = (warps / queues.max(1)).saturating_mul(LANES);
    if options.api != Api::Batch || options.iodepth <= limit {
        return Ok(());
    }
    let limit = format!(
        "{limit}: a batch has one command of each lane in flight, of --warps {warps} on --queues {queues}"
    );
    Err(too_large("iodepth", options.iodepth, limit))
}
