/* module.h - C interface of the CPU executor. C99.
 *
 * A worker runs some blocks of a launch on the OS thread that created it. It owns no thread and never waits:
 * the caller steps it until it is done, and decides what to do when it only polls.
 *
 *     wb_simt *worker = module->create(&launch);       NULL: module->error(NULL) says why
 *     while ((state = module->step(worker, 1024)) <= WB_SIMT_IDLE)
 *         if (state == WB_SIMT_IDLE) pause_or_yield();
 *     module->destroy(worker);
 *
 * Several workers, each on its own thread, share a launch through first_block and block_stride. Every
 * function that takes a worker must be called on the thread that created it; `step` refuses (WB_SIMT_FAULT)
 * when it is not. A worker may be destroyed in any state: lanes that have not finished are dropped, not
 * unwound.
 */
#ifndef WARPBELL_SIMT_MODULE_H
#define WARPBELL_SIMT_MODULE_H

#include "costs.h"
#include "counters.h"
#include "explore.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WB_SIMT_ABI_VERSION 5u

typedef struct wb_simt wb_simt;
typedef void (*wb_simt_kernel)(const void* args);

/* What a memory_event tells. Of the shared memory of blocks it tells with WB_SIMT_OBSERVE_SHARED alone. */
enum wb_simt_event {
    WB_SIMT_EVENT_LOAD = 0,
    WB_SIMT_EVENT_STORE = 1,
    WB_SIMT_EVENT_RMW = 2,        /* told before the access, except by on_rmw */
    WB_SIMT_EVENT_RMW_FAILED = 3, /* follows the RMW event of a compare-and-swap that found another value */
    WB_SIMT_EVENT_FENCE = 4,      /* address is the order, bytes the scope (memory.h) */
    WB_SIMT_EVENT_DOORBELL = 5,   /* as the lane executes the store; with a store buffer it arrives later */
    WB_SIMT_EVENT_DRAIN = 6,      /* a buffered store reaches memory; lane is the one that stored */
    WB_SIMT_EVENT_ACQUIRE = 7     /* follows the LOAD event of a load that acquires */
};

/* All optional. Hooks run on the stack of the thread that steps, never on a lane's small one. A hook may read
 * and write memory, but must not step or destroy its worker. */
struct wb_simt_hooks {
    void* context;
    /* Called INSTEAD of an MMIO store. NULL: a release store. */
    void (*doorbell)(void* context, uint32_t* address, uint32_t value);
    /* NULL: CLOCK_MONOTONIC. */
    uint64_t (*clock_ns)(void* context);
    /* Called before each hooked access. `warp` counts over the whole grid. */
    void (*memory_event)(void* context, uint32_t kind, uint64_t address, uint32_t bytes, uint32_t warp,
                         uint32_t lane);
    /* With costs alone: every lane that could run waits for its time, the earliest for `until`. Lets virtual
     * time pass, at most to there, and returns it. */
    uint64_t (*pass_time)(void* context, uint64_t until);
    /* Called INSTEAD of an MMIO load. NULL: one load of 32 bits. */
    uint32_t (*register_load)(void* context, const uint32_t* address);
};

enum wb_simt_flags {
    WB_SIMT_GUARD_PAGES = 1u,    /* a lane that overruns its stack crashes there; costs two mappings a lane */
    WB_SIMT_STRICT_SHUFFLE = 2u, /* reading a lane outside the group is a fault, not a poison value */
    WB_SIMT_EXPLORE = 4u,       /* stepped by hand (explore.h): blocks of one lane, a store buffer, no seed */
    WB_SIMT_OBSERVE_SHARED = 8u /* hooks.memory_event is told of shared memory, too */
};

struct wb_simt_launch {
    uint32_t abi_version, size; /* WB_SIMT_ABI_VERSION, sizeof(struct wb_simt_launch) */
    wb_simt_kernel kernel;
    const void* args; /* copied by create */
    uint64_t args_size;
    uint32_t grid_x, block_x;
    uint32_t first_block, block_stride; /* this worker runs blocks first, first + stride, ... below grid_x */
    uint32_t resident_blocks;           /* how many at a time; 0: all */
    uint32_t stack_bytes;               /* for each lane; 0: a default that fits the build */
    uint32_t shared_bytes;              /* for each block */
    uint64_t seed;           /* 0: lanes in order until they block; else random order, reproducible */
    uint32_t preempt_one_in; /* with a seed: chance of pre-emption at each hook, 1/N; 0: 1/8 */
    uint32_t
        store_buffer; /* entries a lane; 0: stores go straight through; else weak memory (store_buffer.h) */
    uint32_t flags;
    uint32_t reserved; /* 0 */
    struct wb_simt_hooks hooks;
    /* NULL: what lanes do takes no time. Else clock_ns and pass_time are there, and virtual. Copied by
     * create. */
    const struct wb_simt_costs* costs;
    const struct wb_simt_range*
        host; /* with costs: what is host memory, sorted and apart; outlives the worker */
    uint64_t host_ranges;
};

enum wb_simt_state {
    WB_SIMT_RUNNING = 0, /* used up its turns and made progress */
    WB_SIMT_IDLE =
        1, /* alive, but every lane that can run paused, or loaded 64 times without a switch, and no
              doorbell, queue entry, barrier or exit came of it: a hint that others have to act */
    WB_SIMT_DONE = 2,     /* every lane of every block has returned */
    WB_SIMT_DEADLOCK = 3, /* some lanes can never run again; error() lists them */
    WB_SIMT_FAULT = 4     /* misuse, such as a lane that is missing from its own mask; error() tells which */
};

/* A kernel that listed itself. The launcher compares size and version before it launches. */
struct wb_simt_kernel_entry {
    const char* name;
    wb_simt_kernel kernel;
    uint64_t args_size;   /* what `args` points at */
    uint32_t abi_version; /* of abi.h, as the kernel was compiled with it */
    uint32_t reserved;
    const struct wb_simt_kernel_entry* next; /* NULL: the last */
};

/* What a module of kernels exports, under the name WB_SIMT_MODULE_SYMBOL. */
struct wb_simt_module {
    uint32_t abi_version, size;
    wb_simt* (*create)(const struct wb_simt_launch* launch);
    /* Runs up to `turns` warp turns; returns early as soon as it has anything but RUNNING to tell. */
    uint32_t (*step)(wb_simt* worker, uint32_t turns);
    /* Text for DEADLOCK and FAULT, else "". With NULL: why this thread's last create returned NULL. */
    const char* (*error)(const wb_simt* worker);
    void (*counters)(const wb_simt* worker, struct wb_simt_counters* counters);
    void (*destroy)(wb_simt* worker);
    const struct wb_simt_kernel_entry* kernels; /* the first, in no order; NULL: none */
    const struct wb_simt_explore* explore;      /* for workers with WB_SIMT_EXPLORE */
};

#define WB_SIMT_MODULE_SYMBOL "wb_simt_module_v1"
const struct wb_simt_module* wb_simt_module_v1(void);

/* What the table points at. Hidden, so that each of several modules in a process calls its own. */
#pragma GCC visibility push(hidden)
extern const struct wb_simt_explore* const wb_simt_explore_table;
wb_simt* wb_simt_create(const struct wb_simt_launch* launch);
uint32_t wb_simt_step(wb_simt* worker, uint32_t turns);
const char* wb_simt_error(const wb_simt* worker);
void wb_simt_counters_read(const wb_simt* worker, struct wb_simt_counters* counters);
void wb_simt_destroy(wb_simt* worker);
/* Adds a kernel to the table of its module, before anybody asks for it. */
void wb_simt_register(struct wb_simt_kernel_entry* kernel);
#pragma GCC visibility pop

#ifdef __cplusplus
}

/* Lists a kernel as its module is loaded: WARPBELL_KERNEL defines one for each. */
struct wb_simt_listed : wb_simt_kernel_entry {
    wb_simt_listed(const char* name, wb_simt_kernel kernel, uint64_t args_size, uint32_t abi_version)
        : wb_simt_kernel_entry{name, kernel, args_size, abi_version, 0, nullptr} {
        wb_simt_register(this);
    }
};
#endif

#endif
