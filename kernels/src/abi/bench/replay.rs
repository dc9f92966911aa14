//! What the host shares with `replay`. `abi_bench.h` says what each field is.

use crate::abi::{BufferRef, NamespaceRef, mirror};

mirror! {
    /// One command to replay.
    plain ReplayCommand = "warpbell_replay_command" {
        /// First block.
        lba: u64,
        /// Not before so long after its warp's start; 0: as soon as there is room.
        due_ns: u64,
        /// Blocks; 0 of a flush.
        blocks: u32,
        /// Flush, write, read, or Dataset Management, which deallocates these blocks.
        opcode: u32,
    }
}

mirror! {
    /// What one warp of `replay` did.
    plain ReplayResult = "warpbell_replay_result" {
        /// Flushes that ended.
        flushes: u64,
        /// Bytes read.
        bytes_read: u64,
        /// Bytes written.
        bytes_written: u64,
        /// Commands that were not submitted.
        left: u64,
        /// Commands that deallocate, which ended.
        trims: u64,
        /// Their blocks.
        blocks_trimmed: u64,
    }
}

mirror! {
    /// Kernel `replay`: each warp submits its list of commands in order.
    bench ReplayArgs = "warpbell_replay_args" {
        /// The namespace.
        ns: NamespaceRef,
        /// `units_per_warp` units for each warp.
        buffer: BufferRef,
        /// Address of the [`Mailbox`](crate::abi::Mailbox).
        mailbox: u64,
        /// Address of `WarpResult[warps of the launch]`; its bytes are not used.
        results: u64,
        /// Address of `ReplayResult[warps of the launch]`.
        totals: u64,
        /// Address of `u32[warps][32][2: read, write][HISTOGRAM_BUCKETS]`, zeroed; 0: none.
        histograms: u64,
        /// Address of `ReplayCommand[]` of all warps, one warp's after the other's.
        commands: u64,
        /// Address of `u64[warps + 1]`: warp w has commands `firsts[w]` to `firsts[w + 1]`.
        firsts: u64,
        /// Deadline of a command in nanoseconds; 0: the queue's.
        timeout_ns: u64,
        /// Commands outstanding per queue.
        iodepth: u32,
        /// At least the largest share of a warp.
        units_per_warp: u32,
        /// Blocks of the largest command.
        unit_blocks: u32,
        /// Submit when so many lanes can; 1 to 32; 0: as many as the share allows.
        batch: u32,
    }
}
