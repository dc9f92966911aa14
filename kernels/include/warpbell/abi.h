/* What the host and kernels share: plain data, C99, the only definition of it.
 *
 * Rules. Every struct begins with abi_version and size; a launch whose argument differs from the
 * kernel's is refused. Padding is explicit. A pointer is 64 bits wide and says what it points to and
 * in which memory. All counts are of the unit in the name; `_shift` is a base-2 logarithm.
 * A field is added at the end of a struct, with a new WARPBELL_ABI_VERSION. A field that replaces padding
 * needs none if 0 means the old behaviour.
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

#define WARPBELL_ABI_VERSION 4u
#define WARPBELL_WARP_LANES 32u
#define WARPBELL_LINE_BYTES 128u
#define WARPBELL_BLOCK_THREADS_MAX 256 /* of a kernel */

/* Bits of the shared words. An index is a count from the start of the queue's life; index i lies in
 * slot i & (entries - 1). */
#define WARPBELL_TICKET_CLOSED (UINT64_C(1) << 63) /* queue_state.ticket: no further reservations */
#define WARPBELL_REAP_LOCK (UINT64_C(1) << 63)     /* queue_state.reap: a reaper is at work */

/* Completion slot, one per command id: generation 31:16, PENDING 15, status 14:0 (CQE DW3 >> 17). */
#define WARPBELL_SLOT_PENDING 0x8000u
#define WARPBELL_SLOT_STATUS 0x7fffu
#define WARPBELL_SLOT_GENERATION_SHIFT 16u

/* queue_host.state */
#define WARPBELL_QUEUE_RUNNING 0u
#define WARPBELL_QUEUE_LOST 1u /* given up; a successor may come */
#define WARPBELL_QUEUE_DEAD 2u /* given up, and no successor will come */

/* queue_host.hazards, one word for each lane */
#define WARPBELL_HAZARD_FREE 0u    /* the lane does not know the queue, or will never look at it again */
#define WARPBELL_HAZARD_TAKEN 1u   /* it may touch rings, words, state and doorbells */
#define WARPBELL_HAZARD_WAITING 2u /* it looks at this page and at the successor's reference only */

/* queue_ref.sharing, namespace_ref.sharing */
#define WARPBELL_SHARING_EXCLUSIVE 0u /* one warp owns the pair: no atomic operations */
#define WARPBELL_SHARING_SHARED 1u

/* queue_ref.flags */
#define WARPBELL_QUEUE_SHADOW 1u    /* doorbells go through shadows in memory (Doorbell Buffer Config) */
#define WARPBELL_QUEUE_WIDE_CIDS 2u /* 32-bit command ids: local_bits is 16 (soft-controller.md) */
#define WARPBELL_QUEUE_IN_ORDER 4u  /* completions come in the order of submission (soft-controller.md) */
#define WARPBELL_QUEUE_FLUSH 8u     /* whoever reaps flushes the data before it delivers (protocol.md) */

/* namespace_ref.flags */
#define WARPBELL_NAMESPACE_SGL 1u       /* describe data by one inline SGL descriptor, else by PRPs */
#define WARPBELL_NAMESPACE_READ_ONLY 2u /* lease: nothing that changes the medium */
/* Optional commands that the SSD lacks: refused as it would refuse them. Of volume_ref.flags: that one of its
 * members lacks. */
#define WARPBELL_NAMESPACE_NO_COMPARE 4u
#define WARPBELL_NAMESPACE_NO_WRITE_ZEROES 8u
#define WARPBELL_NAMESPACE_NO_DEALLOCATE 16u

/* In PRP mode a command has at most this many list entries, so that a list never chains. */
#define WARPBELL_PRP_LIST_MAX 256u
#define WARPBELL_PRP_TABLE_PAGE 4096u

/* Status of a finished I/O as results report it: the wire's 15 bits (SC 7:0, SCT 10:8, CRD 12:11,
 * M 13, DNR 14), or WARPBELL_STATUS_LIBRARY | code. 0 is success. */
#define WARPBELL_STATUS_LIBRARY 0x8000u
#define WARPBELL_STATUS_TIMED_OUT 1u      /* deadline passed with the command in flight: buffer not free */
#define WARPBELL_STATUS_NOT_SUBMITTED 2u  /* deadline passed before the command was submitted: buffer free */
#define WARPBELL_STATUS_ABORTED 3u        /* the host's stop flag was seen before submission */
#define WARPBELL_STATUS_OUT_OF_RANGE 4u   /* the extent leaves the namespace */
#define WARPBELL_STATUS_MISALIGNED 5u     /* the buffer address is not dword-aligned */
#define WARPBELL_STATUS_QUEUE_GONE 6u     /* queue_lost: deleted by the host; attach again */
#define WARPBELL_STATUS_NO_CID 7u         /* the lane has no free command id */
#define WARPBELL_STATUS_STALE_TOKEN 8u    /* the token's command was already answered */
#define WARPBELL_STATUS_INVALID_BATCH 9u  /* an indivisible batch above entries - 1 */
#define WARPBELL_STATUS_TOO_LARGE 10u     /* above the controller's transfer limit */
#define WARPBELL_STATUS_OUT_OF_BUFFER 11u /* the data leaves the registered buffer */
#define WARPBELL_STATUS_INVALID_FIELD 12u /* an argument that no command can carry: zero blocks */
#define WARPBELL_STATUS_MISMATCH 13u      /* verification: the data read is not the data expected */
#define WARPBELL_STATUS_NO_ROOM 14u       /* try_submit: the queue is full at the moment */
#define WARPBELL_STATUS_SSD_LOST 15u      /* the host has given the SSD up: no successor will come */
#define WARPBELL_STATUS_READ_ONLY 16u     /* the lease does not permit writing */
#define WARPBELL_STATUS_OUT_OF_LEASE 17u  /* outside the lease's blocks, or its memory */

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
    uint64_t flush_register; /* with WARPBELL_QUEUE_FLUSH: a 32-bit register of the controller, */
    uint64_t flush_data;     /* and a 32-bit word of the memory that data lies in; 0: the register suffices */
    /* Of one Dataset Management; 0: no limit */
    uint64_t deallocate_blocks;       /* in all (DMSL) */
    uint32_t deallocate_ranges;       /* DMRL */
    uint32_t deallocate_range_blocks; /* of a range (DMRSL) */
    uint32_t pad0[14];
    uint32_t spurious[32]; /* completions that no pending command owned; the sum counts */
    uint32_t late[32];     /* commands that completed after their deadline; the sum counts */
    uint64_t ticket;       /* shared: CLOSED | next index to reserve */
    uint64_t pad1[15];
    uint64_t turn; /* shared: every index below is published */
    uint32_t rung; /* shared, with WARPBELL_QUEUE_SHADOW: low half of the tail last rung; under the turn */
    uint32_t pad2[29];
    uint64_t reap; /* shared: LOCK | commands whose completions were reaped and reported to the controller */
    uint64_t pad3[15];
    uint64_t head;    /* shared: completions reaped (reported or not); written under LOCK */
    uint32_t surplus; /* of all completions reaped: those of no pending command, which give no room */
    uint32_t pad4[29];
    uint64_t exclusive_tail; /* exclusive: the owner's registers, saved at detach */
    uint64_t exclusive_head;
    uint64_t exclusive_reported;
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
    uint64_t hazards;   /* uint32_t[warp_slots][32] in host memory, WARPBELL_HAZARD_*; 0: nobody counts */
    uint64_t pad[11];
} warpbell_queue_host;

/* One queue pair as kernels see it. */
typedef struct warpbell_queue_ref {
    uint32_t abi_version, size;
    uint64_t sq;          /* 64-byte entries */
    uint64_t cq;          /* 16-byte entries */
    uint64_t sq_doorbell; /* 32-bit register */
    uint64_t cq_doorbell;
    uint64_t state;      /* warpbell_queue_state, device memory */
    uint64_t words;      /* uint32_t[warp_slots][32][1 << token_shift], device memory, zeroed */
    uint64_t host;       /* warpbell_queue_host, host memory */
    uint64_t quarantine; /* as in warpbell_queue_host */
    uint64_t timeout_ns; /* default for every wait, from its start */
    uint32_t sq_shift;   /* ring entries */
    uint32_t cq_shift;   /* == sq_shift */
    uint32_t ring_shift; /* ring at least whenever the tail crosses a multiple of 1 << ring_shift; 5 */
    uint32_t
        cq_doorbell_batch; /* T: ring the CQ doorbell when so many entries are unreported; 1 to entries - 1 */
    uint32_t local_bits;   /* L: command id = warp_slot << L | lane << (L - 5) | k */
    uint32_t token_shift;  /* commands in flight per lane; at most L - 5 */
    uint32_t warp_slots;   /* warps that may attach; warp_slots << L at most 65536, or 2^32 with wide ids */
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
    uint32_t crdt[3];       /* Command Retry Delay Times 1 to 3, units of 100 ms */
    uint32_t zeroes_blocks; /* per Write Zeroes (WZSL); 0: max_blocks */
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

#ifdef __cplusplus
}
#endif

#endif
