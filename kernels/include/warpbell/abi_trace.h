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

/* One command to replay. */
typedef struct warpbell_replay_command {
    uint64_t lba;
    uint64_t due_ns; /* not before so long after its warp's start; 0: as soon as there is room */
    uint32_t blocks; /* 0 of a flush */
    uint32_t opcode; /* flush, write or read */
} warpbell_replay_command;

/* What one warp of `replay` did. */
typedef struct warpbell_replay_result {
    uint64_t flushes;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t left; /* commands that were not submitted: it was asked to stop, or its queue was lost */
} warpbell_replay_result;

/* Kernel `replay`: each warp submits its list of commands in order, with at most its share of iodepth
 * outstanding, as warps of `bench` share it. Its data lies in the buffer at
 * (warp * units_per_warp + number) * unit_blocks blocks. */
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
    uint64_t deadline_ns;
    uint32_t iodepth; /* per queue */
    uint32_t units_per_warp;
    uint32_t unit_blocks; /* of the largest command */
    uint32_t batch;       /* as of bench */
} warpbell_replay_args;

#ifdef __cplusplus
}
#endif

#endif
