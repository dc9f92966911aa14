/* Arguments of kernels that `warpbell bench` runs beside `bench`. The rules of abi.h hold here too. */
#ifndef WARPBELL_ABI_BENCH_H
#define WARPBELL_ABI_BENCH_H

#include "abi.h"
#include "abi_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WARPBELL_BENCH_MAIL_SLOTS 4u /* requests of a client lane, and what an agent's lane has in flight */

/* What one agent warp did. */
typedef struct warpbell_agent_counts {
    uint64_t requests; /* submitted */
    uint64_t batches;  /* times that it submitted: doorbells */
    uint64_t refused;  /* answered without being submitted */
} warpbell_agent_counts;

/* Kernel `bench_agent`: `bench` through agents. Of the launch's warps the first are agents, each on queue
 * `number mod queues`, and the others compute: warp w of these has box w, which agent w mod agents serves.
 * `agents` is a multiple of the number of queues; iodepth is shared by the compute warps of a queue, as
 * `bench` has it, and its unit numbers count compute warps. Histograms and results are those of the launch's
 * warps. `api`, `batch`, `recover_ns` and `retries` are not used. */
typedef struct warpbell_bench_agent_args {
    uint32_t abi_version, size;
    warpbell_bench_args bench;
    uint64_t boxes;  /* mail_box<WARPBELL_BENCH_MAIL_SLOTS>[compute warps], zeroed */
    uint64_t counts; /* warpbell_agent_counts[agents] */
    uint64_t polls;  /* uint64_t[compute warps]: looks at queues of each; ~0: nobody counts */
    uint32_t agents;
    uint32_t pad0;
} warpbell_bench_agent_args;

#define WARPBELL_BENCH_BLOCK_BYTES 22528u /* dynamic shared memory of a block of `bench_batch` */

/* Kernel `bench_batch`: `bench` by blocks that send their I/Os in batches. Of each block the first
 * `submitters` warps have queues, and stand for the warps of `bench`: number `submitters * block + warp`, on
 * queue `number mod queues`. iodepth is shared by them as `bench` has it; none has more than 32 commands in
 * flight. The deadline is a batch's. Blocks have at most WARPBELL_BLOCK_THREADS_MAX threads, in whole warps.
 * Histograms and results are those of the launch's warps. `api` and `batch` are not used. */
typedef struct warpbell_bench_batch_args {
    uint32_t abi_version, size;
    warpbell_bench_args bench;
    uint32_t submitters;
    uint32_t pad0;
} warpbell_bench_batch_args;

/* Kernels `bench_array_clock`, `_fifo` and `_lru`: warps read and write 64-bit words of an array over a page
 * cache with that policy, on shared queues. An I/O of `bench` is one word of one lane here; a unit is a page,
 * of blocks_per_io blocks, a power of two. All lanes of a warp go on together: those of each 32 / spread in a
 * row take words of one page, side by side. No word is in the first 32 bytes of its page. What is stored is
 * the complement of the pattern that `verify` has there. A queue that is lost ends its warps. The buffer is
 * the pages' memory. Kernel `bench_array_plain`: the same words by plain loads and stores, with the buffer as
 * the array, which has `units` pages at least. Kernel `bench_array_flush`: one warp flushes the cache. Kernel
 * `bench_array_check`: each page is read once and compared; a word in `stored` has the complement, any other
 * the pattern. `deadline_ns`, `iodepth`, `histograms`, `units_per_warp`,
 * `api`, `batch`, `recover_ns` and `retries` are not used. */
typedef struct warpbell_bench_array_args {
    uint32_t abi_version, size;
    warpbell_bench_args bench;
    warpbell_cache_ref cache;
    uint64_t sums;   /* uint64_t[warps][32]: of what each lane read */
    uint64_t stored; /* a bit for each word of the array, in uint64_t, zeroed: it was stored; 0: none */
    uint32_t spread; /* pages that a warp wants at once: 1, 2, 4, 8, 16 or 32 */
    uint32_t pad0;
} warpbell_bench_array_args;

#ifdef __cplusplus
}
#endif

#endif
