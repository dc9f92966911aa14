/* What the host shares with kernels that cache pages of an SSD (cache.cuh). The rules of abi.h hold here too.
 */
#ifndef WARPBELL_ABI_CACHE_H
#define WARPBELL_ABI_CACHE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One line: room for a page. Device memory, zeroed by the host; kept from kernel to kernel. */
typedef struct warpbell_cache_line {
    uint64_t state; /* impl/cache_lines.cuh says what its bits are */
    uint64_t page;  /* which one it has, unless it is empty */
    uint32_t next;  /* of its bucket, plus one; 0: it is the last */
    uint32_t stamp; /* when it was used last */
    uint32_t error; /* the status of its read, if that failed */
    uint32_t pad0;
} warpbell_cache_line;

/* What kernels count; device memory, zeroed by the host. */
typedef struct warpbell_cache_report {
    uint64_t hand; /* of the policy */
    uint64_t pad0[15];
    uint64_t hits;        /* pages that were there, once for each warp and call; added when a warp detaches */
    uint64_t misses;      /* pages that were read, or begun anew; likewise */
    uint64_t write_backs; /* pages written; likewise */
    uint64_t error_status; /* the first failure that no call could answer, or 0 */
    uint64_t error_page;   /* of which page */
    /* By prefetchers (prefetch.cuh); added when they detach. */
    uint64_t prefetched;         /* reads that were submitted before a page was wanted; of these pages */
    uint64_t prefetched_used;    /* so many were used, */
    uint64_t prefetched_in_vain; /* and so many were not: taken or given up before, or not read at all */
    uint64_t prefetch_skipped;   /* pages without a line, or room on the queue */
    uint64_t pad1[7];
} warpbell_cache_report;

/* A cache of pages of one namespace or volume. */
typedef struct warpbell_cache_ref {
    uint32_t abi_version, size;
    uint64_t lines;       /* warpbell_cache_line[line_count] */
    uint64_t buckets;     /* uint64_t[bucket_mask + 1], zeroed by the host */
    uint64_t report;      /* warpbell_cache_report */
    uint64_t first_block; /* page p begins at block first_block + p * page_bytes / block_bytes */
    uint64_t pages;       /* of the namespace or volume that may be cached */
    uint64_t timeout_ns;  /* for a line, where all are pinned, and for a page that another warp reads */
    uint64_t kept_first;  /* pages that `pinned_set` keeps, once they are there */
    uint64_t kept_pages;
    uint32_t line_count;  /* at least 1 */
    uint32_t bucket_mask; /* a power of two less one */
    uint32_t page_shift;  /* binary logarithm of page_bytes, at least that of a block */
    uint32_t pad0;
} warpbell_cache_ref;

#ifdef __cplusplus
}
#endif

#endif
