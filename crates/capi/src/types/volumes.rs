//! The structs of `volume.h`, `cache.h` and `tiles.h`.

use super::Head;

/// `warpbell_volume_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VolumeOptions {
    /// Version and size.
    pub head: Head,
    /// Bytes of a chunk; 0: the default.
    pub chunk_bytes: u64,
    /// `WARPBELL_VOLUME_*`.
    pub layout: u32,
    /// 0.
    pub pad0: u32,
    /// One for each SSD; null: alike.
    pub distances: *const u32,
}

/// `warpbell_volume_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VolumeInfo {
    /// Version and size.
    pub head: Head,
    /// Blocks of it.
    pub blocks: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// SSDs.
    pub members: u32,
    /// `WARPBELL_VOLUME_*`.
    pub layout: u32,
    /// 0.
    pub pad0: u32,
}

/// `warpbell_member_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemberInfo {
    /// Version and size.
    pub head: Head,
    /// The SSD's name.
    pub name: [u8; 128],
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Commands that failed.
    pub errors: u64,
    /// The status of one of the last of them.
    pub error_status: u32,
    /// 1 if it has everything that was written.
    pub present: u32,
    /// 1 if reads go to others.
    pub avoided: u32,
    /// 0.
    pub pad0: u32,
}

/// `warpbell_volume_io_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VolumeIoOptions {
    /// Version and size.
    pub head: Head,
    /// Of one command; 0: the default.
    pub timeout_ns: u64,
    /// Commands in flight on each SSD; 0: the default.
    pub depth: u32,
    /// Not 0: for writes too.
    pub write: u32,
}

/// `warpbell_volume_io_end`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VolumeIoEnd {
    /// Version and size.
    pub head: Head,
    /// Which one.
    pub request: u64,
    /// `warpbell_error`.
    pub error: u32,
    /// 0.
    pub pad0: u32,
    /// Its message.
    pub text: [u8; 256],
}

/// `warpbell_cache_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CacheOptions {
    /// Version and size.
    pub head: Head,
    /// The first block that is cached.
    pub first_block: u64,
    /// Of waits; 0: the default.
    pub timeout_ns: u64,
    /// The first page that `pinned_set` keeps.
    pub kept_first: u64,
    /// Pages that it keeps.
    pub kept_pages: u64,
    /// Bytes of a page; 0: the default.
    pub page_bytes: u32,
    /// Pages that there is room for; 0: the default.
    pub lines: u32,
}

/// `warpbell_cache_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CacheInfo {
    /// Version and size.
    pub head: Head,
    /// Pages that may be cached.
    pub pages: u64,
    /// Of the buffer in which they lie.
    pub buffer_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that there is room for.
    pub lines: u32,
}

/// `warpbell_cache_counters`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CacheCounters {
    /// Version and size.
    pub head: Head,
    /// Pages that were there.
    pub hits: u64,
    /// Pages that were read.
    pub misses: u64,
    /// Pages that were written.
    pub write_backs: u64,
    /// Pages that were read ahead.
    pub prefetched: u64,
    /// Of them, those that were used.
    pub prefetched_used: u64,
    /// Those that were not.
    pub prefetched_in_vain: u64,
    /// Pages that there was no room for.
    pub prefetch_skipped: u64,
    /// The page of the first failure.
    pub error_page: u64,
    /// Its status; 0: none.
    pub error_status: u32,
    /// 0.
    pub pad0: u32,
}

/// `warpbell_tile`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tile {
    /// What it is called.
    pub number: u64,
    /// The first block of its first row.
    pub first_block: u64,
    /// Blocks from row to row.
    pub row_stride: u64,
    /// Blocks of a row.
    pub blocks: u32,
    /// Rows.
    pub rows: u32,
}

/// `warpbell_tiles_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TilesOptions {
    /// Version and size.
    pub head: Head,
    /// Tiles that the ring has room for; 0: the default.
    pub slots: u32,
    /// Steps that loads are ahead of; 0: the default.
    pub ahead: u32,
}

/// `warpbell_tiles_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TilesInfo {
    /// Version and size.
    pub head: Head,
    /// Uses of tiles.
    pub steps: u64,
    /// Of them, those that load.
    pub loads: u64,
    /// Bytes that are loaded.
    pub loaded_bytes: u64,
    /// Of the buffer that kernels load into.
    pub ring_bytes: u64,
    /// Bytes of the largest tile.
    pub slot_bytes: u32,
    /// 0.
    pub pad0: u32,
}
