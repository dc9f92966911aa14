//! Arguments of kernels `bench` and `digest`. `abi_bench.h` says what each kernel does with them.

use crate::abi::{BufferRef, FileRef, NamespaceRef, mirror};

mirror! {
    /// Kernel `bench`: keeps `iodepth` commands outstanding per queue until told to stop.
    bench BenchArgs = "warpbell_bench_args" {
        /// The namespace.
        ns: NamespaceRef,
        /// `units_per_warp` units for each warp.
        buffer: BufferRef,
        /// Address of the [`Mailbox`](crate::abi::Mailbox).
        mailbox: u64,
        /// Address of `WarpResult[warps of the launch]`.
        results: u64,
        /// Address of `u32[warps][32][2: read, write][HISTOGRAM_BUCKETS]`, zeroed; 0: none.
        histograms: u64,
        /// Address of `u32[8][256]` for CRC-32C; with verify.
        crc_tables: u64,
        /// First block of the range.
        first_lba: u64,
        /// I/O units in the range.
        units: u64,
        /// Seed of offsets and patterns.
        seed: u64,
        /// I/Os of all warps; 0: no limit.
        io_limit: u64,
        /// Nanoseconds on the kernel's clock; 0: no limit.
        runtime_ns: u64,
        /// Deadline of an I/O in nanoseconds; 0: the queue's.
        timeout_ns: u64,
        /// Blocks of an I/O.
        blocks_per_io: u32,
        /// Commands outstanding per queue.
        iodepth: u32,
        /// At least the largest share of a warp.
        units_per_warp: u32,
        /// Submit when so many lanes can; 1 to 32; 0: as many as the share allows.
        batch: u32,
        /// 100: only reads, 0: only writes.
        read_percent: u32,
        /// `PATTERN_*`.
        pattern: u32,
        /// `API_*`.
        api: u32,
        /// 1: writes carry the pattern of [`UnitHeader`](crate::abi::UnitHeader), reads check it.
        verify: u32,
        /// Nanoseconds to wait for a lost queue's successor, and for the buffer of a command that timed out; 0: a lost
        /// queue ends the warp, a timeout its I/O.
        recover_ns: u64,
        /// Address of `u64[units]`: where each unit lies; 0: as `first_lba` says.
        lbas: u64,
        /// Most commands of one I/O that are submitted again; 0: none.
        retries: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernel `digest`: CRC-32C of every chunk of a file.
    bench DigestArgs = "warpbell_digest_args" {
        /// The namespace.
        ns: NamespaceRef,
        /// 32 chunks for each warp of the launch.
        buffer: BufferRef,
        /// Address of the [`Mailbox`](crate::abi::Mailbox); only its `stop` is used.
        mailbox: u64,
        /// Address of `WarpResult[warps]`.
        results: u64,
        /// Address of `ChunkResult[ceil(file.bytes / chunk)]`.
        chunks: u64,
        /// Address of `u32[8][256]` for CRC-32C.
        crc_tables: u64,
        /// The file: each chunk begins in an extent, and ends with it at the latest.
        file: FileRef,
        /// Deadline of an I/O in nanoseconds; 0: the queue's.
        timeout_ns: u64,
        /// Blocks of a chunk; the last of an extent may have fewer.
        chunk_blocks: u32,
        /// Most times that a command is submitted again, within its deadline, after a lost queue on its successor; 0:
        /// never.
        retries: u32,
    }
}
