//! The structs of `file.h`.

use std::ffi::c_char;

use super::Head;

/// `warpbell_file_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FileOptions {
    /// Version and size.
    pub head: Head,
    /// Path of a manifest, or null.
    pub manifest: *const c_char,
    /// The partition, or null.
    pub partition: *const c_char,
    /// Namespace; 0: the first.
    pub nsid: u32,
    /// Not 0: also what was not unmounted.
    pub allow_dirty: u32,
}

/// `warpbell_file_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FileInfo {
    /// Version and size.
    pub head: Head,
    /// Bytes of the file.
    pub bytes: u64,
    /// Those that no block has.
    pub hole_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Namespace.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// `warpbell_file_part`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FilePart {
    /// Version and size.
    pub head: Head,
    /// In the file.
    pub offset: u64,
    /// In the namespace.
    pub at: u64,
    /// Its length.
    pub bytes: u64,
}
