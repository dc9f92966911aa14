//! What the host shares with kernels that cache pages. `abi_cache.h` says what each field is.

use super::mirror;

mirror! {
    /// Room for a page.
    plain CacheLine = "warpbell_cache_line" {
        /// `impl/cache_lines.cuh` says what its bits are.
        state: u64,
        /// Which page it has, unless it is empty.
        page: u64,
        /// Of its bucket, plus one.
        next: u32,
        /// When it was used last.
        stamp: u32,
        /// The status of its read, if that failed.
        error: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// What kernels count.
    plain CacheReport = "warpbell_cache_report" {
        /// Of the policy.
        hand: u64,
        /// Zero.
        pad0: [u64; 15],
        /// Pages that were there, once for each warp and call.
        hits: u64,
        /// Pages that were read, or begun anew.
        misses: u64,
        /// Pages written.
        write_backs: u64,
        /// The first failure that no call could answer, or 0.
        error_status: u64,
        /// Of which page.
        error_page: u64,
        /// Reads before a page was wanted; of these pages
        prefetched: u64,
        /// so many were used,
        prefetched_used: u64,
        /// and so many were not.
        prefetched_in_vain: u64,
        /// Pages without a line, or room on the queue.
        prefetch_skipped: u64,
        /// Zero.
        pad1: [u64; 7],
    }
}

mirror! {
    /// A cache of pages of one namespace or volume.
    versioned CacheRef = "warpbell_cache_ref" {
        /// Address of `CacheLine[line_count]`.
        lines: u64,
        /// Address of `u64[bucket_mask + 1]`.
        buckets: u64,
        /// Address of the [`CacheReport`].
        report: u64,
        /// Where page 0 begins.
        first_block: u64,
        /// Pages that may be cached.
        pages: u64,
        /// For a line, and for a page that another warp reads.
        timeout_ns: u64,
        /// The first page that `pinned_set` keeps.
        kept_first: u64,
        /// How many.
        kept_pages: u64,
        /// Lines.
        line_count: u32,
        /// A power of two less one.
        bucket_mask: u32,
        /// Binary logarithm of a page's bytes.
        page_shift: u32,
        /// Zero.
        pad0: u32,
    }
}
