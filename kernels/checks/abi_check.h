/* What hosts share with the kernels of tests: `check_*`, which try each call of the device library and, as
 * `check_stale` and `check_port`, the order of memory; `check_attach`, `queue_test` and `volume_check`. The
 * rules of abi_bench.h hold here too. */
#ifndef WARPBELL_ABI_CHECK_H
#define WARPBELL_ABI_CHECK_H

#include "abi_bench.h"
#include <warpbell/abi_volume.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of the namespace, and of the buffer, that each warp has for itself. */
#define WARPBELL_CHECK_WARP_BLOCKS 256u

/* What one warp saw. Zero but for `done`: all is right. */
typedef struct warpbell_check_result {
    uint64_t done;   /* calls, of each lane, that were answered as they should be */
    uint64_t failed; /* that were not, */
    uint64_t wrong;  /* or that moved other data than they should have */
    uint32_t step;   /* the first of these in one of the lanes: its number in the kernel, */
    uint32_t status; /* and the answer */
} warpbell_check_result;

/* Kernels `check_*`: each warp makes the calls of one part of the library `rounds` times, writes contents of
 * its own, reads them and compares. A warp that has found something makes no more rounds. */
typedef struct warpbell_check_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; /* WARPBELL_CHECK_WARP_BLOCKS blocks for each warp of the launch */
    uint64_t results;           /* warpbell_check_result[warps], zeroed */
    uint64_t stop;              /* uint32_t: ends the kernel once it is not 0 */
    uint64_t first_lba;         /* of warp 0; those of the others follow */
    uint64_t seed;
    uint32_t rounds;
    uint32_t pad0;
} warpbell_check_args;

/* Kernel `check_stale`: one warp looks at `words` words of data in each of `rounds` rounds, once `turn` says
 * that it has begun; all are then the round's number. The host looks at `answer` once `seen` is the round. Of
 * its result `done` counts rounds, `failed` those that did not begin, `wrong` the words that were not there.
 */
typedef struct warpbell_stale_check_args {
    uint32_t abi_version, size;
    uint64_t data;       /* uint64_t[words] */
    uint64_t answer;     /* uint64_t[32], host memory: the round, by each lane */
    uint64_t turn;       /* uint32_t, host memory: written by the host, from 1 on */
    uint64_t seen;       /* uint32_t, host memory: the last round that the kernel has looked at */
    uint64_t stop;       /* uint32_t, host memory: ends the kernel once it is not 0 */
    uint64_t results;    /* warpbell_check_result, zeroed */
    uint64_t timeout_ns; /* for a round to begin */
    uint32_t words;
    uint32_t rounds;
} warpbell_stale_check_args;

/* Kernel `check_attach`: one lane attaches to a queue in each of `rounds` rounds, once `turn` says that it
 * has begun, and leaves it once `looked` is the round. Nothing is submitted. Of its result `done` counts
 * rounds, `failed` those in which the host was not heard. */
typedef struct warpbell_attach_check_args {
    uint32_t abi_version, size;
    uint64_t queue;    /* warpbell_queue_ref, shared, for one warp */
    uint64_t attached; /* uint32_t, host memory: the round, if the lane was let in; else 0 */
    uint64_t turn;     /* uint32_t, host memory: written by the host, from 1 on */
    uint64_t begun;    /* uint32_t, host memory: the round in which the lane is about to attach */
    uint64_t looked;   /* uint32_t, host memory: the round in which the host has looked at the hazard slot */
    uint64_t seen;     /* uint32_t, host memory: the last round that the kernel has left */
    uint64_t results;  /* warpbell_check_result, zeroed */
    uint64_t timeout_ns; /* for each wait */
    uint32_t rounds;
    uint32_t pad0;
} warpbell_attach_check_args;

/* Kernel `check_port`: what port.cuh says of its accesses, by blocks of 64 threads. Each warp takes each lock
 * once a round, and each lane adds and sets bits. Of a warp's result `done` counts rounds, `failed` waits
 * that were too long, `wrong` looks at which the two words beside a lock differed; `step` is that lock's
 * number. */
typedef struct warpbell_port_check_args {
    uint32_t abi_version, size;
    uint64_t words;      /* uint64_t[WARPBELL_PORT_BITS + rounds * blocks], zeroed */
    uint64_t results;    /* warpbell_check_result[warps], zeroed */
    uint64_t timeout_ns; /* for all of it */
    uint32_t rounds;
    uint32_t pad0;
} warpbell_port_check_args;

/* Words of `check_port`: WARPBELL_PORT_LOCKS locks, a line each, with two words beside it that it guards,
 * each of which counts its holders; sums of all lanes, of 64 and of 32 bits; a word of each block for each
 * round, with a bit for each thread. */
#define WARPBELL_PORT_LOCKS 6u
#define WARPBELL_PORT_LINE 16u
#define WARPBELL_PORT_SUM (WARPBELL_PORT_LOCKS * WARPBELL_PORT_LINE)
#define WARPBELL_PORT_SHORT_SUM (WARPBELL_PORT_SUM + 1u)
#define WARPBELL_PORT_BITS (WARPBELL_PORT_SUM + WARPBELL_PORT_LINE)

/* What `queue_test` saw of one command: the driver of the tests compares it with what was asked. */
typedef struct warpbell_test_record {
    uint32_t answers; /* statuses returned for it: exactly 1 is right */
    uint32_t status;  /* the first */
    uint32_t payload; /* 1: checked and right, 2: checked and wrong, 0: not checked */
    uint32_t cid;
    uint64_t lba;
    uint64_t found; /* first 64-bit word of the data, where it was wrong */
} warpbell_test_record;

#define WARPBELL_TEST_READ 0u        /* read, and check against the pattern that the host wrote */
#define WARPBELL_TEST_WRITE 1u       /* write the pattern */
#define WARPBELL_TEST_WRITE_READ 2u  /* write a block of its own, then read it back */
#define WARPBELL_TEST_FLUSH 3u       /* no data */
#define WARPBELL_TEST_STALE_TOKEN 1u /* flag: wait a second time on a copy of each consumed token */

/* Kernel `queue_test`: every lane of every warp issues `commands` commands through the raw queue.
 * A batch has at most `batch` lanes (lanes take turns where that is below 32); a lane keeps at most
 * `async_depth` commands in flight. Every block of the device that a command touches has, in its
 * first and last 64-bit word, splitmix64(seed ^ lba). */
typedef struct warpbell_queue_test_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; /* one block per warp, lane and k < async_depth */
    uint64_t mailbox;
    uint64_t records; /* warpbell_test_record[warps][32][commands], zeroed */
    uint64_t results; /* warpbell_warp_result[warps] */
    uint64_t seed;
    uint64_t timeout_ns;        /* 0: the queue's */
    uint64_t submit_timeout_ns; /* 0: the same */
    uint32_t commands;
    uint32_t batch;
    uint32_t async_depth;
    uint32_t mode;  /* WARPBELL_TEST_READ.. */
    uint32_t flags; /* WARPBELL_TEST_STALE_TOKEN.. */
    uint32_t pad0;
} warpbell_queue_test_args;

/* What one warp of `volume_check` saw. */
typedef struct warpbell_volume_check_result {
    uint64_t units;  /* written, or read and looked at */
    uint64_t wrong;  /* of those: read, and not what was written there */
    uint64_t failed; /* units whose I/O did not succeed */
    uint64_t status; /* of one of them */
} warpbell_volume_check_result;

/* Kernel `volume_check`: writes every unit of a volume with contents of its own, or reads and compares all.
 * Unit u is `unit_blocks` blocks at u * unit_blocks; lane i of warp w has the unit 32 * w + i of the buffer.
 */
typedef struct warpbell_volume_check_args {
    uint32_t abi_version, size;
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer; /* 32 units for each warp of the launch */
    uint64_t results;                  /* warpbell_volume_check_result[warps], zeroed */
    uint64_t stop;                     /* uint32_t: ends the kernel once it is not 0 */
    uint64_t units;
    uint64_t seed;
    uint32_t unit_blocks;
    uint32_t writes;
} warpbell_volume_check_args;

#ifdef __cplusplus
}
#endif

#endif
