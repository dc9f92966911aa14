/* What the host shares with kernels that measure: `resident`, the GPU-resident controller and its clients,
 * and `gauge`. The rules of abi_bench.h hold here too. */
#ifndef WARPBELL_ABI_RESIDENT_H
#define WARPBELL_ABI_RESIDENT_H

#include "abi_bench.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GPU-resident controller: some blocks of kernel `resident` play an ideal NVMe controller, the others are
 * its clients through the device library. No data moves. */

/* Rules that it checks; the names are those of the soft controller's checker. */
#define WARPBELL_RULE_DOORBELL_RANGE 0u       /* DoorbellRange */
#define WARPBELL_RULE_DOORBELL_OVERRUN 1u     /* DoorbellOverrun */
#define WARPBELL_RULE_CQ_HEAD_BEYOND_TAIL 2u  /* CqHeadBeyondTail */
#define WARPBELL_RULE_STALE_ENTRY 3u          /* StaleEntry; with WARPBELL_RESIDENT_POISON */
#define WARPBELL_RULE_CID_IN_FLIGHT 4u        /* CidInFlight */
#define WARPBELL_RULE_CID_RESERVED 5u         /* CidReserved */
#define WARPBELL_RULE_UNSUPPORTED_OPCODE 6u   /* UnsupportedOpcode: other than Flush, Write and Read */
#define WARPBELL_RULE_FUSED_OPERATION 7u      /* FusedOperation */
#define WARPBELL_RULE_NAMESPACE_IDENTIFIER 8u /* NamespaceIdentifier */
#define WARPBELL_RULE_RESERVED_FIELD 9u       /* ReservedField: dwords 2 and 3 */
#define WARPBELL_RULE_METADATA 10u            /* Metadata: dwords 4 and 5 */
#define WARPBELL_RULE_LBA_RANGE 11u           /* LbaRange */
#define WARPBELL_RULE_TRANSFER_SIZE 12u       /* TransferSize */
#define WARPBELL_RULE_DATA_POINTER 13u        /* DataPointer: PSDT 10b and 11b */
#define WARPBELL_RULE_SGL_DESCRIPTOR 14u      /* SglDescriptor: not one data block */
#define WARPBELL_RULE_SGL_LENGTH 15u          /* SglLength */
#define WARPBELL_RULE_PRP_MISALIGNED 16u      /* PrpMisaligned */
#define WARPBELL_RULE_PRP_OFFSET 17u          /* PrpOffset */
#define WARPBELL_RULE_PRP_UNNEEDED 18u        /* PrpUnneeded */
#define WARPBELL_RULE_FOREIGN_ADDRESS 19u     /* ForeignAddress: outside of the buffer */
#define WARPBELL_RULES 20u

/* A queue pair as its controller sees it, and the controller's state between launches; device memory. The
 * rings and doorbells are those of the warpbell_queue_ref. Fresh: all counts S, as in warpbell_queue_state,
 * both doorbells S modulo the entries, the completion ring zeroed. */
typedef struct warpbell_resident_queue {
    uint32_t abi_version, size;
    uint64_t sq;
    uint64_t cq;
    uint64_t sq_doorbell;
    uint64_t cq_doorbell;
    uint64_t in_flight; /* uint8_t[65536], zeroed: 1 where a command id is in flight; with a delay, else 0 */
    uint64_t flights;   /* warpbell_resident_flight[entries]; with a delay, else 0 */
    uint32_t shift;     /* ring entries */
    uint32_t qid;
    uint32_t published;     /* low halves of counts: entries that the SQ doorbell told of, */
    uint32_t fetched;       /* entries fetched, */
    uint32_t accepted;      /* commands among them, */
    uint32_t posted;        /* completions posted, */
    uint32_t taken;         /* completions that the CQ doorbell told of */
    uint32_t first_rule;    /* of the first broken rule: 1 + WARPBELL_RULE_*, 0 if none was broken, */
    uint32_t first_cid;     /* the command, 0 of a doorbell, */
    uint32_t first_fetched; /* how many entries were fetched before it, */
    uint64_t first_value;   /* and the value at fault */
    uint64_t commands;      /* of all launches */
    uint64_t digest;        /* of their ids and block addresses: the sum of splitmix64(lba << 16 | cid) */
    uint32_t broken[32];    /* how often each rule was broken */
} warpbell_resident_queue;

/* A command on its way, where completions are delayed. */
typedef struct warpbell_resident_flight {
    uint64_t due_ns; /* on the kernel's clock */
    uint32_t cid;
    uint32_t status; /* as in the completion: 15 bits */
} warpbell_resident_flight;

#define WARPBELL_RESIDENT_THROUGHPUT 0u /* each warp keeps its quota of iodepth outstanding */
#define WARPBELL_RESIDENT_EACH 1u   /* each thread waits for its own command, a warp together: read_each */
#define WARPBELL_RESIDENT_THREAD 2u /* each thread for itself: submit, wait; shared queues only */

/* warpbell_resident_args.flags */
#define WARPBELL_RESIDENT_DIGEST 1u /* both sides sum up what was submitted */
#define WARPBELL_RESIDENT_POISON                                                                             \
    2u                               /* a fetched entry is overwritten, to know it when it is fetched again  \
                                      */
#define WARPBELL_RESIDENT_ECHO 4u    /* each command is answered by a status made of its block address */
#define WARPBELL_RESIDENT_CHECKED 8u /* clients check each command before it is submitted, as io.cuh does */

/* Dword 0 of a poisoned entry. */
#define WARPBELL_RESIDENT_POISONED 0xffffffffu
/* With WARPBELL_RESIDENT_ECHO: vendor-specific status of a command, but for the low byte of its address. */
#define WARPBELL_RESIDENT_ECHO_STATUS 0x700u

/* Commands that a lane keeps outstanding at most, in WARPBELL_RESIDENT_THROUGHPUT. */
#define WARPBELL_RESIDENT_SLOTS 4u
/* Queues that a warp of the controller watches at most: one per lane. */
#define WARPBELL_RESIDENT_WATCHED 32u

/* Kernel `resident`. Blocks below controller_blocks are the controller: warp c of its C serves queues c, c +
 * C,
 * ..; they return when `ended` has reached `clients` and all commands are answered. The warps of the other
 * blocks are the clients, counted from 0, and use queues as warpbell_namespace_ref says; each adds one to
 * `ended`. Results are the clients': reads counts commands, mismatches those whose status was not their own.
 */
typedef struct warpbell_resident_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; /* addresses that commands may name; nothing is read or written there */
    uint64_t mailbox;           /* warpbell_mailbox */
    uint64_t results;           /* warpbell_warp_result[clients] */
    uint64_t digests;           /* uint64_t[clients], zeroed */
    uint64_t histograms;        /* uint32_t[clients][32][buckets], zeroed; 0: none */
    uint64_t queues;            /* warpbell_resident_queue[ns.queue_count] */
    uint64_t places;            /* uint32_t[blocks]: the multiprocessor that a block ran on */
    uint64_t ended;             /* uint32_t, zeroed */
    uint64_t io_limit;          /* commands of all clients; 0: no limit */
    uint64_t runtime_ns;        /* on the kernel's clock; 0: none */
    uint64_t timeout_ns;        /* per command; 0: the queue's */
    uint64_t delay_ns;          /* from fetch to completion, at least */
    uint32_t controller_blocks;
    uint32_t clients;       /* warps */
    uint32_t iodepth;       /* per queue */
    uint32_t batch;         /* commands submitted at once at most, 1 to 32 */
    uint32_t blocks_per_io; /* at most ns.max_blocks */
    uint32_t mode;          /* WARPBELL_RESIDENT_THROUGHPUT and its like */
    uint32_t flags;         /* WARPBELL_RESIDENT_DIGEST and its like */
    uint32_t pad0;
} warpbell_resident_args;

#define WARPBELL_GAUGE_PAUSE 0u /* pauses, as in each loop that waits */
#define WARPBELL_GAUGE_CLOCK 1u /* reads the clock */
#define WARPBELL_GAUGE_LOAD 2u  /* loads the word */
#define WARPBELL_GAUGE_CAS 3u   /* moves the word on by one, as a submitter does the ticket */
#define WARPBELL_GAUGE_PING 4u  /* stores to the word, and waits for the answer in `answer` */
#define WARPBELL_GAUGE_PONG 5u  /* the other side of PING */
#define WARPBELL_GAUGE_BOTH 6u  /* block 0 is PING, block 1 is PONG */

/* What lane 0 of one warp of `gauge` measured. */
typedef struct warpbell_gauge_result {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t rounds;  /* done */
    uint64_t retries; /* compare-and-swaps that found another value, or looks in vain */
} warpbell_gauge_result;

/* Kernel `gauge`: lane 0 of each warp does one thing `rounds` times: what machines can do at best. */
typedef struct warpbell_gauge_args {
    uint32_t abi_version, size;
    uint64_t word;    /* uint64_t; 32 bits wide for PING and PONG; device memory or host memory */
    uint64_t answer;  /* uint32_t, for PING and PONG */
    uint64_t results; /* warpbell_gauge_result[warps] */
    uint64_t mailbox; /* a wait ends when its `stop` is set */
    uint64_t rounds;  /* below 2^32 for PING and PONG */
    uint32_t mode;    /* WARPBELL_GAUGE_PAUSE and its like */
    uint32_t pad0;
} warpbell_gauge_args;

#ifdef __cplusplus
}
#endif

#endif
