//! The structs of `host_io.h`.

use std::ffi::c_void;

use super::Head;

/// `warpbell_io_queue_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoQueueOptions {
    /// Version and size.
    pub head: Head,
    /// For a command; 0: the default.
    pub timeout_ns: u64,
    /// Namespace; 0: the first.
    pub nsid: u32,
    /// Requests; 0: the default.
    pub depth: u32,
}

/// `warpbell_io_request`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoRequest {
    /// `WARPBELL_IO_*`
    pub op: u32,
    /// 0.
    pub pad0: u32,
    /// First block.
    pub lba: u64,
    /// Whole blocks.
    pub bytes: u64,
    /// In a buffer.
    pub data: *mut c_void,
    /// The program's.
    pub tag: u64,
}

/// `warpbell_io_completion`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoCompletion {
    /// The program's.
    pub tag: u64,
    /// The request's, or 0.
    pub bytes: u64,
    /// 0: success.
    pub status: u32,
    /// 0.
    pub pad0: u32,
}
