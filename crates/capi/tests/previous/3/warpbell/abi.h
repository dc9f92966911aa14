/* What the host and kernels share: plain data, C99, the only definition of it.
 *
 * Rules. Every struct begins with abi_version and size; a launch whose argument differs from the
 * kernel's is refused. Padding is explicit. A pointer is 64 bits wide and says what it points to and
 * in which memory. All counts are of the unit in the name; `_shift` is a base-2 logarithm.
 * A field is added at the end of a struct, with a new WARPBELL_ABI_VERSION.
 * abi_table.h lists every field, and checks that the list is complete. */
#ifndef WARPBELL_ABI_H
#define WARPBELL_ABI_H

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#define UINT64_C(value) value##ul
#else
#include <stdint.h>
#endif

#define WARPBELL_ABI_VERSION 3u
#define WARPBELL_WARP_LANES 32u
#define WARPBELL_LINE_BYTES 128u
#define WARPBELL_BLOCK_THREADS_MAX 256 /* of our kernels, on a GPU */

/* Bits of the shared words. An index is a count from the start of the queue's life; index i lies in
 * slot i & (entries - 1). */
#define WARPBELL_TICKET_CLOSED (UINT64_C(1) << 63) /* queue_state.ticket: no further reservations */
#define WARPBELL_REAP_LOCK (UINT64_C(1) << 63)     /* queue_state.reap: a reaper is at work */

/* Completion word, one per command id: generation 31:16, PENDING 15, status 14:0 (CQE DW3 >> 17). */
#define WARPBELL_WORD_PENDING 0x8000u
#define WARPBELL_WORD_STATUS 0x7fffu
#define WARPBELL_WORD_GENERATION_SHIFT 16u

/* queue_host.state */
#define WARPBELL_QUEUE_RUNNING 0u
#define WARPBELL_QUEUE_LOST 1u /* given up; a successor may come */
#define WARPBELL_QUEUE_DEAD 2u /* given up, and no successor will come */

/* queue_host.seats, one word for each lane */
#define WARPBELL_SEAT_FREE 0u    /* the lane does not know the queue, or will never look at it again */
#define WARPBELL_SEAT_TAKEN 1u   /* it may touch rings, words, state and doorbells */
#define WARPBELL_SEAT_WAITING 2u /* it looks at this page and at the successor's reference only */

/* queue_ref.sharing, namespace_ref.sharing */
#define WARPBELL_SHARING_EXCLUSIVE 0u /* one warp owns the pair: no atomic operations */
#define WARPBELL_SHARING_SHARED 1u

/* queue_ref.flags */
#define WARPBELL_QUEUE_SHADOW 1u    /* doorbells go through shadows in memory (Doorbell Buffer Config) */
#define WARPBELL_QUEUE_WIDE_CIDS 2u /* 32-bit command ids: local_bits is 16 (docs/experimental.md) */
#define WARPBELL_QUEUE_IN_ORDER 4u  /* completions come in the order of submission (docs/experimental.md) */

/* namespace_ref.flags */
#define WARPBELL_NAMESPACE_SGL 1u       /* describe data by one inline SGL descriptor, else by PRPs */
#define WARPBELL_NAMESPACE_READ_ONLY 2u /* lease: nothing that changes the medium */

/* In PRP mode a command has at most this many list entries, so that a list never chains. */
#define WARPBELL_PRP_LIST_MAX 256u
#define WARPBELL_PRP_TABLE_PAGE 4096u

/* Status of a finished I/O as results report it: the wire's 15 bits (SC 7:0, SCT 10:8, CRD 12:11,
 * M 13, DNR 14), or WARPBELL_STATUS_LIBRARY | code. 0 is success. */
#define WARPBELL_STATUS_LIBRARY 0x8000u
#define WARPBELL_TIMED_OUT 1u      /* deadline passed with the command in flight: its buffer is not free */
#define WARPBELL_NOT_SUBMITTED 2u  /* deadline passed before the command was submitted: buffer free */
#define WARPBELL_ABORTED 3u        /* the host's stop flag was seen before submission */
#define WARPBELL_OUT_OF_RANGE 4u   /* the extent leaves the namespace */
#define WARPBELL_MISALIGNED 5u     /* the buffer address is not dword-aligned */
#define WARPBELL_QUEUE_GONE 6u     /* queue_lost: deleted by the host; attach again */
#define WARPBELL_NO_CID 7u         /* the lane has no free command id */
#define WARPBELL_STALE_TOKEN 8u    /* the token's command was already answered */
#define WARPBELL_INVALID_BATCH 9u  /* an indivisible batch above entries - 1 */
#define WARPBELL_TOO_LARGE 10u     /* above the controller's transfer limit */
#define WARPBELL_OUT_OF_BUFFER 11u /* the data leaves the registered buffer */
#define WARPBELL_INVALID_FIELD 12u /* an argument that no command can carry: zero blocks, another qid */
#define WARPBELL_MISMATCH 13u      /* verification: the data read is not the data expected */
#define WARPBELL_NO_ROOM 14u       /* try_submit: the queue is full at the moment */
#define WARPBELL_SSD_LOST 15u      /* the host has given the SSD up: no successor of the queue will come */
#define WARPBELL_READ_ONLY 16u     /* the lease does not permit writing */
#define WARPBELL_OUT_OF_LEASE 17u  /* outside the lease's blocks, or its memory */

#ifdef __cplusplus
extern "C" {
#endif

/* A queue's state, in device memory; it outlives kernels. Each group has a 128-byte line of its own.
 * Fresh: all counters equal to S, where S modulo (2 * entries) is the rings' position (a queue pair
 * straight from creation stands at 0; after n commands by the host at n). */
typedef struct warpbell_queue_state {
    uint32_t abi_version, size;
    uint32_t sqhd_mismatch; /* completions whose SQHD lies outside what was submitted */
    uint32_t shadow_stride; /* with WARPBELL_QUEUE_SHADOW: bytes from the SQ tail's entry to the CQ head's, */
    uint64_t shadow;        /* the SQ tail's shadow doorbell, host memory, */
    uint64_t events;        /* and its EventIdx */
    uint64_t trace; /* warpbell_trace_lane[warp_slots][32] of kernels compiled with WARPBELL_TRACE; 0: none */
    uint32_t pad0[22];
    uint32_t spurious[32]; /* completions that no pending command owned; the sum counts */
    uint32_t late[32];     /* commands that completed after their deadline; the sum counts */
    uint64_t ticket;       /* shared: CLOSED | next index to reserve */
    uint64_t pad1[15];
    uint64_t turn; /* shared: every index below is published */
    uint32_t rung; /* shared, with WARPBELL_QUEUE_SHADOW: low half of the tail last rung; under the turn */
    uint32_t pad2[29];
    uint64_t reap; /* shared: LOCK | commands whose completions were reaped and told to the controller */
    uint64_t pad3[15];
    uint64_t head;    /* shared: completions reaped (told or not); written under LOCK */
    uint32_t surplus; /* of all completions reaped: those of no pending command, which give no room */
    uint32_t pad4[29];
    uint64_t exclusive_tail; /* exclusive: the owner's registers, saved at detach */
    uint64_t exclusive_head;
    uint64_t exclusive_told;
    uint64_t pad5[13];
} warpbell_queue_state;

/* The host's page of a queue, in host memory. */
typedef struct warpbell_queue_host {
    uint32_t abi_version, size;
    uint32_t state; /* WARPBELL_QUEUE_*: written by the host, read by kernels on slow paths only */
    uint32_t alarm; /* set to 1 by a lane after it quarantined a command; the host exchanges it for 0, then
                       scans */
    uint64_t
        quarantine; /* uint32_t[warp_slots][32] in host memory: bit k = the lane's command k is quarantined */
    uint64_t successor; /* warpbell_queue_ref of the newest queue in place of this one, readable by kernels;
                           0: none. Written after state, when the controller has forgotten this queue; if the
                           successor is lost too, 0 and then the next one */
    uint64_t seats;     /* uint32_t[warp_slots][32] in host memory, WARPBELL_SEAT_*; 0: nobody counts */
    uint64_t pad[11];
} warpbell_queue_host;

/* One queue pair as kernels see it. */
typedef struct warpbell_queue_ref {
    uint32_t abi_version, size;
    uint64_t sq;          /* 64-byte entries */
    uint64_t cq;          /* 16-byte entries */
    uint64_t sq_doorbell; /* 32-bit register */
    uint64_t cq_doorbell;
    uint64_t state;       /* warpbell_queue_state, device memory */
    uint64_t words;       /* uint32_t[warp_slots][32][1 << token_shift], device memory, zeroed */
    uint64_t host;        /* warpbell_queue_host, host memory */
    uint64_t quarantine;  /* as in warpbell_queue_host */
    uint64_t deadline_ns; /* default for every wait, from its start */
    uint32_t sq_shift;    /* ring entries */
    uint32_t cq_shift;    /* == sq_shift */
    uint32_t ring_shift;  /* ring at least whenever the tail crosses a multiple of 1 << ring_shift; 5 */
    uint32_t
        told_threshold;   /* T: ring the CQ doorbell when so many entries are unreported; 1 to entries - 1 */
    uint32_t local_bits;  /* L: command id = warp_slot << L | lane << (L - 5) | k */
    uint32_t token_shift; /* commands in flight per lane; at most L - 5 */
    uint32_t warp_slots;  /* warps that may attach; warp_slots << L at most 65536, or 2^32 with wide ids */
    uint32_t qid;
    uint32_t epoch;   /* grows with every replacement of a lost queue */
    uint32_t sharing; /* WARPBELL_SHARING_* */
    uint32_t flags;   /* WARPBELL_QUEUE_* */
    uint32_t pad0;
} warpbell_queue_ref;

/* A namespace, and the queues through which kernels reach it. Warp w of the launch uses queue
 * w mod queue_count, and there warp slot w div queue_count. */
typedef struct warpbell_namespace_ref {
    uint32_t abi_version, size;
    uint64_t queues; /* warpbell_queue_ref[queue_count], readable by kernels */
    uint64_t blocks; /* logical blocks */
    uint32_t queue_count;
    uint32_t sharing; /* WARPBELL_SHARING_*, of all its queues */
    uint32_t warps;   /* warps for which command ids and words exist, over all queues */
    uint32_t nsid;
    uint32_t block_shift; /* 9 or 12 */
    uint32_t max_blocks;  /* per command: MDTS, at most 65536, and in PRP mode at most 1 MiB */
    uint32_t page_shift;  /* controller memory page (CC.MPS); 12 */
    uint32_t flags;       /* WARPBELL_NAMESPACE_* */
    uint64_t lease_first; /* commands touch blocks in [lease_first, lease_end) only, */
    uint64_t lease_end;
    uint64_t lease_iova; /* and their data lies in [lease_iova, lease_iova_end), as the controller sees it */
    uint64_t lease_iova_end;
    uint32_t crdt[3]; /* Command Retry Delay Times 1 to 3, units of 100 ms */
    uint32_t pad0;
} warpbell_namespace_ref;

/* Registered memory, contiguous for the controller. PRP lists are built once, by the host: table page
 * i (4096 bytes, aligned) holds the addresses of the buffer's pages [256 i, 256 i + 512), as far as
 * they exist, counted from the start of the buffer's first page. The list that begins at page p is
 * then at prp_iova + (p >> 8) * 4096 + (p & 255) * 8 and has at least 257 entries before a page ends. */
typedef struct warpbell_buffer_ref {
    uint32_t abi_version, size;
    uint64_t data; /* where kernels read and write it */
    uint64_t iova; /* where the controller does; any dword alignment */
    uint64_t bytes;
    uint64_t prp_iova; /* the table above; 0: none (SGLs only, or at most two pages) */
    uint32_t page_shift;
    uint32_t flags; /* 0 */
} warpbell_buffer_ref;

/* Host memory that a running kernel and the host both look at. */
typedef struct warpbell_mailbox {
    uint32_t abi_version, size;
    uint32_t stop;    /* set by the host: finish what is in flight, then return */
    uint32_t claimed; /* 0, then 1 from the first lane that reports an error */
    uint64_t error_lba;
    uint32_t error_status;
    uint32_t error_block;  /* blockIdx.x */
    uint32_t error_thread; /* threadIdx.x */
    uint32_t reported;     /* 1 once the error fields are valid */
    uint64_t pad[11];
} warpbell_mailbox;

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
 * share its iodepth (the first ones take the remainder); a warp's share of n commands uses lanes
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
    uint64_t io_limit;    /* I/Os of all warps; 0: no limit */
    uint64_t runtime_ns;  /* on the kernel's clock; 0: none */
    uint64_t deadline_ns; /* per I/O; 0: the queue's */
    uint32_t blocks_per_io;
    uint32_t iodepth;        /* per queue */
    uint32_t units_per_warp; /* at least the largest share of a warp */
    uint32_t batch; /* begin I/Os when so many lanes of the warp can, or none waits; 0 and 1: each at once */
    uint32_t read_percent; /* 100: only reads, 0: only writes */
    uint32_t pattern;      /* WARPBELL_PATTERN_* */
    uint32_t api;          /* WARPBELL_API_* */
    uint32_t verify;       /* writes carry the pattern of `verify`, reads check it */
    uint64_t recover_ns;   /* wait so long for a lost queue's successor, and for the buffer of a command that
                              timed out; 0: a lost queue ends the warp, a timeout its I/O */
    uint32_t retries;      /* most commands of one I/O that are submitted again; 0: none */
    uint32_t pad0;
} warpbell_bench_args;

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
    uint32_t crc32c; /* of the chunk's bytes, the last chunk cut at the exact length */
    uint32_t status;
} warpbell_chunk_result;

/* Kernel `digest`: CRC-32C of every chunk of `bytes` bytes from first_lba on. Chunk c has
 * chunk_blocks blocks (the last may have fewer). Buffer: 32 chunks per warp of the launch. */
typedef struct warpbell_digest_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t mailbox; /* its `reported` is not used; `stop` is, and is set where a read fails */
    uint64_t results; /* warpbell_warp_result[warps] */
    uint64_t chunks;  /* warpbell_chunk_result[ceil(bytes / chunk)] */
    uint64_t crc_tables;
    uint64_t first_lba;
    uint64_t bytes; /* exact */
    uint64_t deadline_ns;
    uint32_t chunk_blocks;
    uint32_t retries; /* most times that a command is submitted again, within its deadline, after a lost queue
                         on its successor; 0: never */
} warpbell_digest_args;

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
    uint64_t deadline_ns;        /* 0: the queue's */
    uint64_t submit_deadline_ns; /* 0: the same */
    uint32_t commands;
    uint32_t batch;
    uint32_t async_depth;
    uint32_t mode;  /* WARPBELL_TEST_READ.. */
    uint32_t flags; /* WARPBELL_TEST_STALE_TOKEN.. */
    uint32_t pad0;
} warpbell_queue_test_args;

#ifdef __cplusplus
}
#endif

#endif
