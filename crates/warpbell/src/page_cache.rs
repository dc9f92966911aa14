//! A page cache of kernels (`cache.cuh`): what of it is on the host's side.

use std::ops::Range;
use std::time::Duration;

use warpbell_hw::Lba;
use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use crate::{Error, FileTable, KernelMemory, OpenTarget};

warpbell_base::options! {
    /// What kind of cache to make.
    #[derive(Clone, Debug)]
    pub struct PageCacheSpec {
        /// Bytes of a page: a power of two, and at least a block.
        pub page_bytes: u32,
        /// Pages that it has room for. Each takes 48 bytes at most beside its data.
        pub lines: u32,
        /// The first block that is cached: at least a page of blocks follows it.
        pub first_block: Lba,
        /// How long kernels wait for a line, where all are pinned, and for a page that another warp reads; and how long a
        /// flush begins writes.
        pub timeout: Duration,
        /// Pages that the policy `pinned_set` keeps.
        pub kept: Range<u64>,
    }
}

impl Default for PageCacheSpec {
    /// 1024 pages of 4 KiB from block 0 on.
    fn default() -> PageCacheSpec {
        PageCacheSpec {
            page_bytes: 4096,
            lines: 1024,
            first_block: Lba(0),
            timeout: Duration::from_secs(1),
            kept: 0..0,
        }
    }
}

/// What kernels counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCacheReport {
    /// Pages that were there, once for each warp and call; of warps that have detached.
    pub hits: u64,
    /// Pages that were read, or begun anew; likewise.
    pub misses: u64,
    /// Pages that were written; likewise.
    pub write_backs: u64,
    /// Pages that were read before anybody wanted them (`prefetch.cuh`); of prefetchers that have detached.
    pub prefetched: u64,
    /// As many of these were used.
    pub prefetched_used: u64,
    /// As many were not: taken or given up before, or not read for a failure.
    pub prefetched_in_vain: u64,
    /// Pages that were not read ahead as there was no line for them, or no room on the queue.
    pub prefetch_skipped: u64,
    /// The status of the first failure that no call could answer, as in `status.cuh`, and its page.
    pub error: Option<(u32, u64)>,
}

impl PageCacheReport {
    /// Of the pages that were wanted, the share that was there, or on its way; `None` where none was wanted.
    pub fn hit_rate(&self) -> Option<f64> {
        let wanted = self.hits + self.misses;
        (wanted != 0).then(|| self.hits as f64 / wanted as f64)
    }
}

/// The lines of a cache, which kernels fill, write back and take again. They stay as they are from kernel to kernel: pages
/// that no kernel has flushed are lost with it.
pub struct PageCache {
    shape: abi::CacheRef,
    /// The report, then lines, then buckets.
    memory: KernelMemory,
}

const LINES: usize = size_of::<abi::CacheReport>();

impl PageCache {
    /// A cache of the whole pages among `blocks` blocks of `block_bytes` bytes, for kernels on `target`.
    pub fn new(
        target: &OpenTarget,
        (blocks, block_bytes): (u64, u32),
        spec: &PageCacheSpec,
    ) -> Result<PageCache, Error> {
        check(spec, (blocks, block_bytes))?;
        // Twice as many as lines: then a lookup goes past a fourth of a line at most, on average.
        let buckets = (2 * spec.lines as usize).next_power_of_two();
        let buckets_at = LINES + spec.lines as usize * size_of::<abi::CacheLine>();
        // Zeroed: all lines are empty.
        let memory = target.memory(buckets_at + buckets * size_of::<u64>())?;
        let base = memory.address();
        let of_cache = blocks.saturating_sub(spec.first_block.get());
        let shape = abi::CacheRef {
            lines: base + LINES as u64,
            buckets: base + buckets_at as u64,
            report: base,
            first_block: spec.first_block.get(),
            pages: of_cache / u64::from(spec.page_bytes / block_bytes),
            timeout_ns: u64::try_from(spec.timeout.as_nanos()).unwrap_or(u64::MAX),
            kept_first: spec.kept.start,
            kept_pages: spec.kept.end.saturating_sub(spec.kept.start),
            line_count: spec.lines,
            bucket_mask: buckets as u32 - 1,
            page_shift: spec.page_bytes.trailing_zeros(),
            ..abi::CacheRef::new()
        };
        Ok(PageCache { shape, memory })
    }

    /// A cache of a file's pages for kernels on `target`, which read it by `file_cache.cuh`: all pages that have a byte of the
    /// file. `first_block` is one of the file here.
    pub fn of_file(target: &OpenTarget, file: &FileTable, spec: &PageCacheSpec) -> Result<PageCache, Error> {
        let (bytes, shift) = (file.bytes(), file.block_shift());
        // What is no size of a page is refused below.
        let whole = bytes.checked_next_multiple_of(spec.page_bytes.into()).unwrap_or(bytes);
        PageCache::new(target, (whole >> shift, 1 << shift), spec)
    }

    /// The kernel argument that names this cache. Valid while it lives; a launch must keep it: [`memory`](Self::memory).
    pub fn as_ref(&self) -> abi::CacheRef {
        self.shape
    }

    /// What kernels write there; hand a clone to [`Launch::keep`](crate::Launch::keep).
    pub fn memory(&self) -> KernelMemory {
        self.memory.clone()
    }

    /// What the buffer that its pages lie in must have.
    pub fn buffer_bytes(&self) -> usize {
        (self.shape.line_count as usize) << self.shape.page_shift
    }

    /// Pages that may be cached.
    pub fn pages(&self) -> u64 {
        self.shape.pages
    }

    /// What kernels counted.
    pub fn report(&self) -> Result<PageCacheReport, Error> {
        let mut found = abi::CacheReport::new();
        self.memory.read(0, found.as_mut_bytes())?;
        let error = (found.error_status != 0).then_some((found.error_status as u32, found.error_page));
        Ok(PageCacheReport {
            hits: found.hits,
            misses: found.misses,
            write_backs: found.write_backs,
            prefetched: found.prefetched,
            prefetched_used: found.prefetched_used,
            prefetched_in_vain: found.prefetched_in_vain,
            prefetch_skipped: found.prefetch_skipped,
            error,
        })
    }
}

fn check(spec: &PageCacheSpec, (blocks, block_bytes): (u64, u32)) -> Result<(), Error> {
    let refuse = |object, value: u64, limit: &str| {
        Err(Error::Argument { object, value: value.to_string(), limit: limit.to_owned() })
    };
    if !block_bytes.is_power_of_two() {
        return refuse("bytes of a block", block_bytes.into(), "must be a power of two");
    }
    if !spec.page_bytes.is_power_of_two() || spec.page_bytes < block_bytes {
        let limit = format!("must be a power of two, and at least a block of {block_bytes} bytes");
        return refuse("page_bytes of a cache", spec.page_bytes.into(), &limit);
    }
    let page = u64::from(spec.page_bytes / block_bytes);
    if blocks.checked_sub(page).is_none_or(|last| spec.first_block.get() > last) {
        let limit = format!("must leave a page of {page} blocks, of {blocks} blocks");
        return refuse("first_block of a cache", spec.first_block.get(), &limit);
    }
    match spec.lines {
        1..=0x4000_0000 => Ok(()),
        _ => refuse("lines of a cache", spec.lines.into(), "must be 1 to 2^30"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_cache_begins_where_a_page_is_left() {
        let target = Target::Cpu.open().unwrap();
        let make = |first, blocks| {
            let spec = PageCacheSpec { first_block: Lba(first), lines: 4, ..PageCacheSpec::default() };
            PageCache::new(&target, (blocks, 512), &spec).map(|cache| cache.pages())
        };
        assert_eq!([make(0, 2048), make(2040, 2048)].map(Result::unwrap), [256, 1]);
        for (first, blocks) in [(2041, 2048), (2048, 2048), (u64::MAX, 2048), (u64::MAX, u64::MAX), (0, 7)] {
            let expected =
                format!("first_block of a cache {first}: must leave a page of 8 blocks, of {blocks} blocks");
            assert_eq!(make(first, blocks).unwrap_err().to_string(), expected);
        }
    }
}
