//! What kernels of `warpbell bench` and `digest` report. `abi_bench.h` says what each field is.

use crate::abi::mirror;

mirror! {
    /// What one warp of a kernel did; zeroed by the host, written once at the end.
    bench WarpResult = "warpbell_warp_result" {
        /// Reads that ended.
        reads: u64,
        /// Writes that ended.
        writes: u64,
        /// Bytes read.
        bytes_read: u64,
        /// Bytes written.
        bytes_written: u64,
        /// I/Os whose status was not success.
        errors: u64,
        /// The first of them by this warp.
        error_lba: u64,
        /// Its status.
        error_status: u32,
        /// Index of the warp's queue.
        queue: u32,
        /// Blocks whose content was not as expected.
        mismatches: u64,
        /// The first of them.
        mismatch_lba: u64,
        /// CRC-32C of that block as it should be.
        expected: u32,
        /// CRC-32C of that block as it was read.
        actual: u32,
        /// Start on the kernel's clock.
        start_ns: u64,
        /// End on the kernel's clock.
        end_ns: u64,
        /// Commands in flight at their deadline.
        timed_out: u64,
        /// Commands that found no room before their deadline.
        not_submitted: u64,
        /// Commands that the host aborted, or whose queue it deleted under them.
        aborted: u64,
        /// Commands submitted again.
        retried: u64,
        /// Times that the warp's queue was lost.
        queue_losses: u64,
        /// I/Os that ended well after a command of theirs had not.
        recovered: u64,
    }
}

mirror! {
    /// Header of a verifiable I/O unit, little endian.
    plain UnitHeader = "warpbell_unit_header" {
        /// `UNIT_MAGIC`.
        magic: u64,
        /// First block of the unit.
        lba: u64,
        /// Seed of the pattern.
        seed: u64,
        /// CRC-32C of the payload.
        payload_crc32c: u32,
        /// Bytes of the unit, this header included.
        bytes: u32,
    }
}

mirror! {
    /// One chunk of `digest`.
    plain ChunkResult = "warpbell_chunk_result" {
        /// CRC-32C of the chunk's bytes.
        crc32c: u32,
        /// Status of its read.
        status: u32,
    }
}
