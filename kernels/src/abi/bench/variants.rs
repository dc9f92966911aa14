//! Arguments of kernels that `warpbell bench` runs beside `bench`. `abi_bench.h` says what each field is.

use crate::abi::{BenchArgs, CacheRef, VolumeBufferRef, VolumeRef, mirror};

mirror! {
    /// What one agent warp did.
    plain AgentCounts = "warpbell_agent_counts" {
        /// Requests that it submitted.
        requests: u64,
        /// Times that it submitted.
        batches: u64,
        /// Requests that it answered without submitting them.
        refused: u64,
    }
}

mirror! {
    /// Kernel `bench_agent`: `bench` through agents.
    bench BenchAgentArgs = "warpbell_bench_agent_args" {
        /// What there is to do.
        bench: BenchArgs,
        /// Address of `request_queue<BENCH_MAIL_SLOTS>[compute warps]`, zeroed.
        request_queues: u64,
        /// Address of `AgentCounts[agents]`.
        counts: u64,
        /// Address of `u64[compute warps]`: polls of queues of each; all ones where nobody counts.
        polls: u64,
        /// Agents: a multiple of the number of queues.
        agents: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernel `bench_batch`: `bench` by blocks that send their I/Os in batches.
    bench BenchBatchArgs = "warpbell_bench_batch_args" {
        /// What there is to do.
        bench: BenchArgs,
        /// Warps of each block that have queues.
        submitters: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernels `bench_array_*`: words of an array over a page cache.
    bench BenchArrayArgs = "warpbell_bench_array_args" {
        /// What there is to do: an I/O is a word, a unit a page, the buffer that of the pages.
        bench: BenchArgs,
        /// The cache.
        cache: CacheRef,
        /// Address of `u64[warps][32]`: sums of what each lane read.
        sums: u64,
        /// Address of a bit for each word of the array, in `u64`s: it was stored; 0: none.
        stored: u64,
        /// Pages that a warp wants at once, a power of two.
        spread: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernels `bench_volume*`: reads of a volume.
    bench BenchVolumeArgs = "warpbell_bench_volume_args" {
        /// What there is to do: its namespace is that of any member, with the volume's blocks; its depth is of all warps.
        bench: BenchArgs,
        /// The volume.
        volume: VolumeRef,
        /// `units_per_warp` units for each warp of the launch.
        buffer: VolumeBufferRef,
    }
}
