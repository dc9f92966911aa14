//! What the host shares with kernels that read files. `abi_file.h` says what each field is.

use super::mirror;

mirror! {
    /// Where blocks of a file lie together.
    plain FileExtent = "warpbell_file_extent" {
        /// Its first block in the file.
        first: u64,
        /// Blocks.
        blocks: u64,
        /// Where the first lies.
        lba: u64,
        /// 0.
        reserved: u64,
    }
}

mirror! {
    /// A file.
    versioned FileRef = "warpbell_file_ref" {
        /// Address of `FileExtent[count]`.
        extents: u64,
        /// Address of `u32[bucket_count + 1]`: of which extents the last one that begins until a block is.
        buckets: u64,
        /// Bytes of the file.
        bytes: u64,
        /// Extents.
        count: u32,
        /// Of the namespace's blocks, as a binary logarithm.
        block_shift: u32,
        /// Buckets.
        bucket_count: u32,
        /// Blocks of a bucket, as a binary logarithm.
        bucket_shift: u32,
    }
}
