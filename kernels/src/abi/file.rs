//! What the host shares with kernels that read files. `abi_file.h` says what each field is.

use super::mirror;

mirror! {
    /// Where blocks of a file lie together.
    plain FileExtent = "warpbell_file_extent" {
        /// Where it lies.
        lba: u64,
        /// Blocks.
        blocks: u64,
    }
}

mirror! {
    /// A file.
    versioned FileRef = "warpbell_file_ref" {
        /// Address of the first block in the file of each extent.
        firsts: u64,
        /// Address of `FileExtent[count]`.
        extents: u64,
        /// Bytes of the file.
        bytes: u64,
        /// Extents.
        count: u32,
        /// Of the namespace's blocks, as a binary logarithm.
        block_shift: u32,
    }
}
