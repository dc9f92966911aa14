//! Page caches of a C program.

use std::sync::Arc;
use std::time::Duration;

use warpbell::{FileTable, Lba, PageCache, PageCacheSpec};
use warpbell_kernels::abi::CacheRef;

use crate::error::{Answer, Failure};
use crate::handle::{Kind, Table};
use crate::over::Over;
use crate::queues::Queues;
use crate::scope::User;
use crate::types::{CacheCounters, CacheInfo, CacheOptions, Head};

pub(crate) static CACHES: Table<Cache> = Table::new(Kind::Cache);

/// A cache of a C program's.
pub(crate) struct Cache {
    cache: PageCache,
    over: Over,
    page_bytes: u32,
    lines: u32,
    /// Keeps queues or volume open, and the file's table.
    _users: Vec<User>,
}

impl Cache {
    pub(crate) fn make(over: Over, options: &CacheOptions) -> Answer<u64> {
        let spec = spec(options)?;
        let user = over.enter()?;
        let cache = PageCache::new(over.open_target(), over.blocks(), &spec)?;
        let (page_bytes, lines) = (spec.page_bytes, spec.lines);
        Ok(CACHES.add(Cache { cache, over, page_bytes, lines, _users: vec![user] }))
    }

    /// A cache of a file's pages, for kernels over these queues.
    pub(crate) fn of_file(
        queues: &Arc<Queues>,
        (table, user): (&FileTable, User),
        options: &CacheOptions,
    ) -> Answer<u64> {
        let (spec, over) = (spec(options)?, Over::Queues(queues.clone()));
        let users = vec![over.enter()?, user];
        let cache = PageCache::of_file(over.open_target(), table, &spec)?;
        let (page_bytes, lines) = (spec.page_bytes, spec.lines);
        Ok(CACHES.add(Cache { cache, over, page_bytes, lines, _users: users }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        CACHES.close(handle, |cache| cache.over.no_runs()).map(drop)
    }

    pub(crate) fn to_ref(&self) -> CacheRef {
        self.cache.as_ref()
    }

    pub(crate) fn info(&self) -> CacheInfo {
        CacheInfo {
            head: Head::of::<CacheInfo>(),
            pages: self.cache.pages(),
            buffer_bytes: self.cache.buffer_bytes() as u64,
            page_bytes: self.page_bytes,
            lines: self.lines,
        }
    }

    pub(crate) fn counters(&self) -> Answer<CacheCounters> {
        let counted = self.cache.report()?;
        let (error_status, error_page) = counted.error.unwrap_or_default();
        Ok(CacheCounters {
            head: Head::of::<CacheCounters>(),
            hits: counted.hits,
            misses: counted.misses,
            write_backs: counted.write_backs,
            prefetched: counted.prefetched,
            prefetched_used: counted.prefetched_used,
            prefetched_in_vain: counted.prefetched_in_vain,
            prefetch_skipped: counted.prefetch_skipped,
            error_page,
            error_status,
            pad0: 0,
        })
    }
}

fn spec(options: &CacheOptions) -> Answer<PageCacheSpec> {
    let default = PageCacheSpec::default();
    let CacheOptions { first_block, timeout_ns, kept_first, kept_pages, page_bytes, lines, .. } = *options;
    if kept_pages == 0 && kept_first != 0 {
        return Err(Failure::invalid(format!(
            "kept_first {kept_first}: with kept_pages 0, which is none, it must be 0"
        )));
    }
    let kept_end = kept_first.checked_add(kept_pages).ok_or_else(|| {
        Failure::invalid(format!("kept_pages {kept_pages}: beyond the last number there is"))
    })?;
    let timeout = Duration::from_nanos(timeout_ns);
    Ok(PageCacheSpec::new()
        .first_block(Lba(first_block))
        .timeout(if timeout.is_zero() { default.timeout } else { timeout })
        .kept(kept_first..kept_end)
        .page_bytes(if page_bytes == 0 { default.page_bytes } else { page_bytes })
        .lines(if lines == 0 { default.lines } else { lines }))
}
