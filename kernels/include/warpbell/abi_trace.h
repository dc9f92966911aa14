/* What the host shares with kernels that write traces (trace.cuh), and with kernel `replay`. The rules of
 * abi.h hold here too. */
#ifndef WARPBELL_ABI_TRACE_H
#define WARPBELL_ABI_TRACE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happened. `index` is the low WARPBELL_TRACE_INDEX_BITS bits of an index as in abi.h. */
#define WARPBELL_TRACE_INDEX_BITS 23u
#define WARPBELL_TRACE_ATTACH 1u      /* value: epoch, index: warp slot; by the first lane of a group */
#define WARPBELL_TRACE_SUBMIT 2u      /* value: LBA, index: of its entry, detail: blocks less 1 */
#define WARPBELL_TRACE_SQ_DOORBELL 3u /* index: the new tail, detail: as it was written, value: see below */
#define WARPBELL_TRACE_CQ_DOORBELL 4u /* the same of the head */
#define WARPBELL_TRACE_REAP 5u     /* index: of the first entry, detail: how many, value: nobody's of them */
#define WARPBELL_TRACE_COMPLETE 6u /* a command was answered; detail: status, as in warp_result */
#define WARPBELL_TRACE_REFUSE 7u   /* a lane wanted to submit and could not; detail: why */
#define WARPBELL_TRACE_LATE 8u     /* a command that had timed out has completed: its id is free */

/* Of a doorbell, as value: 1 if its register was written, 0 if its shadow in memory was enough. */
#define WARPBELL_TRACE_REGISTER 1u

/* Bits of `what` and of `detail`. Submit and complete have the command's generation above the detail. */
#define WARPBELL_TRACE_OPCODE_SHIFT 8u
#define WARPBELL_TRACE_QUEUE_SHIFT 16u
#define WARPBELL_TRACE_GENERATION_SHIFT 16u

/* One event. */
typedef struct warpbell_trace_event {
    uint64_t clock_ns; /* the kernel's clock */
    uint64_t value;
    uint32_t what; /* WARPBELL_TRACE_* 7:0, opcode 15:8 of a submission, queue identifier 31:16 */
    uint32_t cid;  /* of submit, complete and late; else 0 */
    uint32_t detail;
    uint32_t index;
} warpbell_trace_event;

/* The ring of one lane, which alone writes to it while a kernel runs: no two lanes of a warp share a
 * position, however they diverge. queue_state.trace is the address of warpbell_trace_lane[warp_slots][32]. */
typedef struct warpbell_trace_lane {
    uint64_t events; /* warpbell_trace_event[1 << shift]; 0: events are counted and not kept */
    uint64_t
        written; /* events so far; event i lies in slot i & (entries - 1), so the oldest are overwritten */
    uint32_t shift;
    uint32_t pad0;
    uint64_t pad1;
} warpbell_trace_lane;

#ifdef __cplusplus
}
#endif

#endif
