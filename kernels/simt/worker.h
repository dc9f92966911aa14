// worker.h - what the lanes of one OS thread share.
#pragma once

#include "block.h"
#include "module.h"

namespace [[gnu::visibility("hidden")]] simt {

// Loads a lane may do before the others get a turn: a loop that spins without pause() must not starve the
// lane it waits for.
constexpr uint32_t spin_limit = 64;
// Collectives that a warp may complete before the other warps get a turn.
constexpr int32_t turn_quantum = 64;

// Something a lane asks the owner's stack to do: hooks are foreign code, which a lane's small stack may
// not hold.
struct Call {
    enum class What : uint32_t { nothing, doorbell, memory_event, clock, register_load } what;
    uint32_t kind, bytes, warp, lane, value;
    uint64_t address;
    uint64_t result;
};

enum class Fault : uint32_t { none, not_in_mask, bad_width, inactive_source, trap };

struct FaultReport {
    Fault what;
    const Lane* lane;
    Op op;
    uint32_t mask;
    uint32_t value;
    const char* text;
};

struct Charges;

struct Worker {
    Context owner; // the stack of the thread that steps
    uint32_t spin_left;
    bool slow;         // any of the following three, an observer, or costs: hooks leave their fast path
    bool random;       // there is a seed
    bool weak;         // there is a store buffer
    bool explore;      // stepped by hand (explore.h)
    bool plain;        // not slow, and no hook for the clock
    bool keeps_stacks; // warps have stacks as long as their block lives, not only while they run
    bool progress;     // in this turn something happened that others may wait for
    bool found;        // in this turn a lane has found data in a cache
    uint32_t preempt_one_in, drain_one_in;
    uint64_t rng;
    wb_simt_counters count;
    Call call;
    Lane* caller;     // waits for `call` to be done on the owner's stack
    Charges* charges; // null: what lanes do takes no time

    wb_simt_launch launch;
    void* args;
    uint32_t state; // wb_simt_state
    FaultReport fault;
    unsigned long thread; // that created it

    Warp** warps; // that have living lanes, in turn order
    uint32_t warp_count, cursor;
    Block* blocks;
    uint32_t block_count, warps_per_block;
    uint64_t next_block;
    size_t stack_bytes, stack_stride;
    char* stacks;         // of as many warps as are resident
    char** unused_stacks; // a warp's each; taken from the end
    size_t unused;
    uint64_t epoch;       // ends when something happens that others may wait for
    uint32_t quiet_warps; // whose lanes have only polled, or were blocked, in this epoch
    char error[8192];
};

// xorshift64: reproducible on every platform, and cheap enough for each hook.
SIMT_INLINE uint64_t next_random(Worker& worker) {
    uint64_t x = worker.rng;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return worker.rng = x;
}

SIMT_INLINE bool one_in(Worker& worker, uint32_t n) { return (next_random(worker) >> 20) % n == 0; }

} // namespace simt

struct __attribute__((visibility("hidden"))) wb_simt {
    simt::Worker worker;
};
