// lane.h - one lane: a stack, and where it stands in its launch.
#pragma once

#include "context.h"

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace [[gnu::visibility("hidden")]] simt {

constexpr uint32_t warp_lanes = 32;

struct Warp;
struct Worker;

// One line of the cache has all that a switch needs, and an access without costs.
struct alignas(64) Lane {
    Context context;
    Warp* warp;
    Worker* worker;
    uint64_t polls;    // looks at a completion slot or an entry's phase
    uint16_t thread;   // threadIdx.x
    uint16_t buffered; // stores of this lane in the store buffer
    uint8_t index;     // in its warp
    bool overlaps;     // with costs: its loads are on their way together with the one before
    bool reduces;      // with costs: its read-modify-writes return nothing, and are not waited for
    uint64_t time;     // with costs: when it may perform its next access (charge.h)
};
#if !SIMT_TSAN && !SIMT_ASAN && !defined(WARPBELL_SIMT_BOOST)
static_assert(offsetof(Lane, time) == 64, "the rest fits one line");
#endif

// initial-exec makes a thread_local one instruction even in a shared object. Modules that are loaded at run
// time go without: a process has room for few that have it, and Python for one.
#ifdef WARPBELL_LOADED_MODULE
#define SIMT_TLS
#else
#define SIMT_TLS __attribute__((tls_model("initial-exec")))
#endif

// What runs on this OS thread. A block is pinned to its thread, so this may be a thread_local. Its members
// are what one switch needs of the one before: were they found through the lane, each switch would wait for a
// chain of loads.
struct Running {
    Lane* lane;    // null outside of a step, and while a hook runs
    Lane* lanes;   // of the warp whose turn it is
    uint32_t turn; // lanes that still have their go in this turn, the running one left out
};

SIMT_TLS inline constinit thread_local Running running = {};

} // namespace simt
