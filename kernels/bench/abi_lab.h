/* What the host shares with the kernels of the protocol laboratory, `lab_*`. The rules of abi_bench.h hold
 * here too. */
#ifndef WARPBELL_ABI_LAB_H
#define WARPBELL_ABI_LAB_H

#include "abi_bench.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of a protocol, for each queue: 16 words on lines of their own, then arrays with one word for
 * each ring entry, every word in 32 bytes of its own. What the words mean is the protocol's affair. */
#define WARPBELL_LAB_LINES 16u
#define WARPBELL_LAB_LINE_WORDS 16u
#define WARPBELL_LAB_ARRAYS 4u
#define WARPBELL_LAB_ENTRY_WORDS 4u

/* Kernels `lab_turns`, `lab_turns_alone`, `lab_marks`, `lab_marks_own`, `lab_lockstep` and `lab_service`:
 * keep one command of each lane in flight until told to stop, each by another protocol. Worker w is warp w
 * div (warps / queue_count) of the queues, in order. The first warps of a queue take the remainder of its
 * iodepth. Lane i of a warp works if it is below the warp's quota; the data of lane number n of queue q lies
 * in the buffer at (q * iodepth + n) * blocks_per_io blocks. Warps from `warps` on serve: one for each queue,
 * of `lab_service` alone. The queues must be shared, and at rest. */
typedef struct warpbell_lab_args {
    uint32_t abi_version, size;
    warpbell_bench_args
        bench;      /* but for units_per_warp, api, recover_ns and retries; iodepth is at most
                       32 for each warp of a queue; results has an element for each warp of the launch */
    uint64_t state; /* uint64_t[queue_count][queue_words], zeroed */
    uint32_t queue_words;
    uint32_t warps; /* that submit; a multiple of queue_count */
} warpbell_lab_args;

#ifdef __cplusplus
}
#endif

#endif
