/* Warpbell from C: page caches for kernels (docs/cache.md). What warpbell.h says of handles, errors, threads,
 * ownership and options holds here too. Kernels include <warpbell/cache.cuh> or <warpbell/array.cuh>, and
 * decide about eviction and access: `page_cache<Source, Access, Policy>`. Since version 7. */
#ifndef WARPBELL_CACHE_H
#define WARPBELL_CACHE_H

#include <warpbell/abi_cache.h>
#include <warpbell/volume.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warpbell_cache warpbell_cache;

typedef struct warpbell_cache_options {
    uint32_t api_version, size;
    uint64_t first_block; /* the first that is cached: a page of blocks follows it at least */
    uint64_t timeout_ns;  /* of waits for a line, and for a page that another warp reads; 0: 1 s */
    uint64_t kept_first;  /* pages [kept_first, kept_first + kept_pages) are those that the policy */
    uint64_t kept_pages;  /* `pinned_set` keeps; 0: none, and kept_first is 0 then */
    uint32_t page_bytes;  /* a power of two, and at least a block; 0: 4096 */
    uint32_t lines;       /* pages that it has room for, 1 to 2^30; 0: 1024 */
} warpbell_cache_options;
#define WARPBELL_CACHE_OPTIONS_INIT WARPBELL_INIT(warpbell_cache_options)

/* A cache of the pages of the queues' namespace. Pages stay in it from kernel to kernel; they lie in a buffer
 * of warpbell_cache_info.buffer_bytes that the program makes (warpbell_buffer_alloc). */
WARPBELL_API warpbell_error warpbell_queues_cache(warpbell_queues* queues,
                                                  const warpbell_cache_options* options,
                                                  warpbell_cache** cache);
/* A cache of the pages of a volume; its buffer is one of the volume's (warpbell_volume_buffer_alloc). */
WARPBELL_API warpbell_error warpbell_volume_cache(warpbell_volume* volume,
                                                  const warpbell_cache_options* options,
                                                  warpbell_cache** cache);
/* Pages that no kernel has flushed are lost: the host writes none back. Busy while a run of its queues is
 * open, or of one of its volume's. */
WARPBELL_API warpbell_error warpbell_cache_close(warpbell_cache* cache);

/* The kernel argument that names the cache. Valid until it is closed. */
WARPBELL_API warpbell_error warpbell_cache_get_ref(warpbell_cache* cache, warpbell_cache_ref* ref);

typedef struct warpbell_cache_info {
    uint32_t api_version, size;
    uint64_t pages;        /* that may be cached */
    uint64_t buffer_bytes; /* of the buffer in which they lie */
    uint32_t page_bytes;
    uint32_t lines;
} warpbell_cache_info;
#define WARPBELL_CACHE_INFO_INIT WARPBELL_INIT(warpbell_cache_info)
WARPBELL_API warpbell_error warpbell_cache_get_info(warpbell_cache* cache, warpbell_cache_info* info);

/* What kernels counted, once for each page, warp and call; added when a warp detaches. */
typedef struct warpbell_cache_counters {
    uint32_t api_version, size;
    uint64_t hits;        /* pages that were there */
    uint64_t misses;      /* pages that were read, or begun anew */
    uint64_t write_backs; /* pages that were written */
    uint64_t prefetched;  /* pages that were read before they were wanted; of these */
    uint64_t prefetched_used;
    uint64_t prefetched_in_vain;
    uint64_t prefetch_skipped; /* pages without a line, or room on the queue */
    uint64_t error_page;       /* of the first failure that no call could answer */
    uint32_t error_status;     /* its status, for warpbell_status_text(); 0: there was none */
    uint32_t pad0;
} warpbell_cache_counters;
#define WARPBELL_CACHE_COUNTERS_INIT WARPBELL_INIT(warpbell_cache_counters)
WARPBELL_API warpbell_error warpbell_cache_get_counters(warpbell_cache* cache,
                                                        warpbell_cache_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
