/* counters.h - what one worker of the CPU executor counted so far. C99. */
#ifndef WARPBELL_SIMT_COUNTERS_H
#define WARPBELL_SIMT_COUNTERS_H

#include <stdint.h>

struct wb_simt_counters {
    uint64_t rmw;            /* atomic read-modify-writes, failed ones included */
    uint64_t rmw_failed;     /* compare-and-swaps that found another value */
    uint64_t fence_sys;      /* fences of system scope */
    uint64_t fence_gpu;      /* fences of GPU scope */
    uint64_t doorbells;      /* MMIO stores: sq_doorbells + cq_doorbells */
    uint64_t sq_doorbells;   /* submission queue tails rung */
    uint64_t cq_doorbells;   /* completion queue heads rung */
    uint64_t sqes;           /* submission queue entries written */
    uint64_t cqes;           /* completion queue entries reaped */
    uint64_t polls;          /* looks at a completion slot or an entry's phase */
    uint64_t loads;          /* hooked loads */
    uint64_t stores;         /* hooked stores, doorbells left out */
    uint64_t collectives;    /* completed warp collectives, each counted once for its group */
    uint64_t switches;       /* times a lane left the processor */
    uint64_t preemptions;    /* of these, taken away by the seed */
    uint64_t drained;        /* stores that left a store buffer (weak-memory mode) */
    uint64_t shadow_stores;  /* shadow doorbells written; `stores` has them too */
    uint64_t register_reads; /* reads of registers, and of other devices' memory; `loads` has none of them */
};

#endif
