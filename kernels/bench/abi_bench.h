/* What hosts share with the kernels of `warpbell bench`, `replay` and `digest`. The rules of abi.h hold here
 * too, but for the version: it is WARPBELL_BENCH_ABI_VERSION, which no program of a user sees. */
#ifndef WARPBELL_ABI_BENCH_H
#define WARPBELL_ABI_BENCH_H

#include <warpbell/abi.h>
#include <warpbell/abi_cache.h>
#include <warpbell/abi_file.h>
#include <warpbell/abi_volume.h>

#define WARPBELL_BENCH_ABI_VERSION 4u

#ifdef __cplusplus
extern "C" {
#endif

/* What one warp of a kernel did; device memory, zeroed by the host, written once at the end. */
typedef struct warpbell_warp_result {
    uint32_t abi_version, size;
    uint64_t reads;
    uint64_t writes;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t errors;    /* I/Os whose status was not success */
    uint64_t error_lba; /* first of them by this warp */
    uint32_t error_status;
    uint32_t queue;
    uint64_t mismatches;   /* blocks whose content was not as expected */
    uint64_t mismatch_lba; /* first of them: the block itself, not the I/O */
    uint32_t expected;     /* CRC-32C of that block as it should be, */
    uint32_t actual;       /* and as it was read */
    uint64_t start_ns;     /* on the kernel's clock */
    uint64_t end_ns;
    uint64_t timed_out;     /* commands in flight at their deadline */
    uint64_t not_submitted; /* commands that found no room before their deadline */
    uint64_t aborted;       /* commands that the host aborted, or whose queue it deleted under them */
    uint64_t retried;       /* commands submitted again */
    uint64_t queue_losses;  /* times that the warp's queue was lost */
    uint64_t recovered;     /* I/Os that ended well after a command of theirs had not */
} warpbell_warp_result;

/* Latency histogram of one lane and direction: uint32_t[WARPBELL_HISTOGRAM_BUCKETS]. v ns falls into
 * bucket v where v < 32, else (m - 4) * 32 + ((v >> (m - 5)) & 31) with m = floor(log2 v); the last
 * bucket takes everything above. */
#define WARPBELL_HISTOGRAM_BUCKETS 1024u

#define WARPBELL_PATTERN_SEQUENTIAL 0u
#define WARPBELL_PATTERN_RANDOM 1u
#define WARPBELL_API_RAW 0u /* the kernel builds entries itself, over queue.cuh */
#define WARPBELL_API_IO 1u  /* io.cuh */

/* Kernel `bench`: keeps iodepth commands outstanding per queue until told to stop. Warps of queue q
 * share its iodepth (the first ones take the remainder); a warp's quota of n commands uses lanes
 * i < n, with command k of lane i being number 32 k + i. Its data lies in the buffer at
 * (warp * units_per_warp + number) * blocks_per_io blocks. */
typedef struct warpbell_bench_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t mailbox;    /* warpbell_mailbox */
    uint64_t results;    /* warpbell_warp_result[warps of the launch] */
    uint64_t histograms; /* uint32_t[warps][32][2: read, write][buckets], zeroed; 0: none */
    uint64_t crc_tables; /* uint32_t[8][256] for CRC-32C, slice by 8; with verify */
    uint64_t first_lba;  /* I/O u covers blocks_per_io blocks at first_lba + u * blocks_per_io, */
    uint64_t units;      /* u below this */
    uint64_t seed;
    uint64_t io_limit;   /* I/Os of all warps; 0: no limit */
    uint64_t runtime_ns; /* on the kernel's clock; 0: none */
    uint64_t timeout_ns; /* per I/O; 0: the queue's */
    uint32_t blocks_per_io;
    uint32_t iodepth;        /* per queue */
    uint32_t units_per_warp; /* at least the largest quota of a warp */
    uint32_t batch; /* begin I/Os when so many lanes of the warp can, or none waits; 0 and 1: each at once */
    uint32_t read_percent; /* 100: only reads, 0: only writes */
    uint32_t pattern;      /* WARPBELL_PATTERN_* */
    uint32_t api;          /* WARPBELL_API_* */
    uint32_t verify;       /* writes carry the pattern of `verify`, reads check it */
    uint64_t recover_ns;   /* wait so long for a lost queue's successor, and for the buffer of a command that
                              timed out; 0: a lost queue ends the warp, a timeout its I/O */
    uint64_t lbas;    /* uint64_t[units]: where each unit lies, as those of a file; 0: as first_lba says */
    uint32_t retries; /* most commands of one I/O that are submitted again; 0: none */
    uint32_t pad0;
} warpbell_bench_args;

/* Kernels `bench_order_none`, `_delivery` and `_completion`: `bench` in steps of an I/O for each lane, up to
 * 8 of them in flight, in that order. `api`, `batch`, `recover_ns` and `retries` are not used. Kernels
 * `bench_tiles`, `_busy`, `_resident` and `_resident_busy`: each warp streams tiles, the units of `bench` in
 * turn, to shared memory; blocks have one warp. units_per_warp is at least WARPBELL_BENCH_TILE_SLOTS.
 * `iodepth`, `read_percent`, `pattern`, `api`, `verify`, `batch`, `recover_ns`, `lbas` and `retries` are not
 * used. */
#define WARPBELL_BENCH_TILE_SLOTS 8u
#define WARPBELL_BENCH_TILE_STAGES 2u
#define WARPBELL_BENCH_TILES_BYTES 4096u /* shared memory of a block, beside a tile for each stage */

/* Header of a verifiable I/O unit, little endian; the rest of the unit is payload: 64-bit word i is
 * splitmix64 number i of the stream seeded with seed ^ (lba * 0x9e3779b97f4a7c15). */
#define WARPBELL_UNIT_MAGIC UINT64_C(0x4c4c454250524157) /* "WARPBELL" */
typedef struct warpbell_unit_header {
    uint64_t magic;
    uint64_t lba;
    uint64_t seed;
    uint32_t payload_crc32c;
    uint32_t bytes; /* of the unit, this header included */
} warpbell_unit_header;

/* One chunk of `digest`. */
typedef struct warpbell_chunk_result {
    uint32_t crc32c; /* of the chunk's bytes, up to the end of its extent or of the file */
    uint32_t status;
} warpbell_chunk_result;

/* Kernel `digest`: CRC-32C of every chunk of a file. Chunk c begins at block c * chunk_blocks and has that
 * many, or as many as its extent has from there on; what follows up to the next chunk is nobody's. Each chunk
 * begins in an extent. Buffer: 32 chunks per warp of the launch. */
typedef struct warpbell_digest_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t mailbox; /* its `reported` is not used; `stop` is, and is set where a read fails */
    uint64_t results; /* warpbell_warp_result[warps] */
    uint64_t chunks;  /* warpbell_chunk_result[ceil(file.bytes / chunk)] */
    uint64_t crc_tables;
    warpbell_file_ref file;
    uint64_t timeout_ns;
    uint32_t chunk_blocks;
    uint32_t retries; /* most times that a command is submitted again, within its deadline, after a lost queue
                         on its successor; 0: never */
} warpbell_digest_args;

/* One command to replay. */
typedef struct warpbell_replay_command {
    uint64_t lba;
    uint64_t due_ns; /* not before so long after its warp's start; 0: as soon as there is room */
    uint32_t blocks; /* 0 of a flush */
    uint32_t opcode; /* flush, write, read, or dataset management: deallocates these blocks */
} warpbell_replay_command;

/* What one warp of `replay` did. */
typedef struct warpbell_replay_result {
    uint64_t flushes;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t left;  /* commands that were not submitted: it was asked to stop, or its queue was lost */
    uint64_t trims; /* commands that deallocate */
    uint64_t blocks_trimmed;
} warpbell_replay_result;

/* Kernel `replay`: each warp submits its list of commands in order, with at most its quota of iodepth
 * outstanding, as warps of `bench` share it; a flush when what its warp submitted before has been answered.
 * Its data lies in the buffer at (warp * units_per_warp + number) * unit_blocks blocks. */
typedef struct warpbell_replay_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t mailbox;    /* warpbell_mailbox */
    uint64_t results;    /* warpbell_warp_result[warps of the launch]; its bytes are not used */
    uint64_t totals;     /* warpbell_replay_result[warps of the launch] */
    uint64_t histograms; /* as of bench; 0: none */
    uint64_t commands;   /* warpbell_replay_command[] of all warps, one warp's after the other's */
    uint64_t firsts;     /* uint64_t[warps + 1]: warp w has commands [firsts[w], firsts[w + 1]) */
    uint64_t timeout_ns;
    uint32_t iodepth; /* per queue */
    uint32_t units_per_warp;
    uint32_t unit_blocks; /* of the largest command */
    uint32_t batch;       /* as of bench */
} warpbell_replay_args;

#define WARPBELL_BENCH_MAIL_SLOTS 4u /* requests of a client lane, and what an agent's lane has in flight */

/* What one agent warp did. */
typedef struct warpbell_agent_counts {
    uint64_t requests; /* submitted */
    uint64_t batches;  /* times that it submitted: doorbells */
    uint64_t refused;  /* answered without being submitted */
} warpbell_agent_counts;

/* Kernel `bench_agent`: `bench` through agents. Of the launch's warps the first are agents, each on queue
 * `number mod queues`, and the others compute: warp w of these has request queue w, served by agent w mod
 * agents. `agents` is a multiple of the number of queues; iodepth is shared by the compute warps of a queue,
 * as `bench` has it, and its unit numbers count compute warps. Histograms and results are those of the
 * launch's warps. `api`, `batch`, `recover_ns` and `retries` are not used. */
typedef struct warpbell_bench_agent_args {
    uint32_t abi_version, size;
    warpbell_bench_args bench;
    uint64_t request_queues; /* request_queue<WARPBELL_BENCH_MAIL_SLOTS>[compute warps], zeroed */
    uint64_t counts;         /* warpbell_agent_counts[agents] */
    uint64_t polls;          /* uint64_t[compute warps]: looks at queues of each; ~0: nobody counts */
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
 * the pattern. `timeout_ns`, `iodepth`, `histograms`, `units_per_warp`,
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

#define WARPBELL_BENCH_VOLUME_MEMBERS 8u /* SSDs of a volume, at most */
#define WARPBELL_BENCH_VOLUME_TOKENS 16u /* reads that a lane has in flight, at most */

/* Kernels `bench_volume`, `_hashed`, `_by_cta` and `_nearest`: reads at random places of a volume on shared
 * queues, each of one command, with that mapping of warps; the first is round_robin. A unit is as in `bench`,
 * in blocks of the volume, and crosses no chunk. Of `bench.ns`, that of any member, block_shift is the
 * volume's. iodepth is of the whole launch, cut for its warps as `bench` cuts a queue's. A read that fails
 * ends its warp. The buffer is the volume's, `bench.buffer` is not used, nor are `crc_tables`,
 * `read_percent`, `pattern` (random), `api`, `verify`, `batch`, `recover_ns`, `lbas` and `retries`.
 * timeout_ns is not 0. */
typedef struct warpbell_bench_volume_args {
    uint32_t abi_version, size;
    warpbell_bench_args bench;
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
} warpbell_bench_volume_args;

#ifdef __cplusplus
}
#endif

#endif
