// warp.h - 32 lanes, and the meeting places of their collectives.
//
// A collective is a rendezvous by (mask, operation): a lane leaves its operand and blocks, the last of the
// mask's living lanes computes every result and goes on without a switch. Lanes that meet under another mask
// or operation do not disturb each other, and lanes that have exited are not waited for, as in CUDA.
#pragma once

#include "lane.h"

namespace [[gnu::visibility("hidden")]] simt {

struct Block;

enum class Op : uint32_t {
    syncwarp,
    ballot,
    any,
    all,
    shfl,
    shfl_up,
    shfl_down,
    shfl_xor,
    match_any,
    match_all,
    add,
    min,
    max,
    min_signed,
    max_signed,
    bit_and,
    bit_or,
    bit_xor,
};

const char* op_name(Op op);

struct Rendezvous {
    uint64_t key;      // mask and operation, or closed
    uint64_t arrivals; // 31:0 lanes that have arrived, 63:32 those whose predicate holds (ballot, any, all)
#if SIMT_TSAN
    uint64_t* edge; // carries what the lanes did before the meeting to what they do after it
#endif
};

constexpr uint64_t closed = ~0ull;
constexpr uint64_t key_of(uint32_t mask, Op op) { return static_cast<uint64_t>(op) << 32 | mask; }
constexpr uint32_t mask_of(const Rendezvous& meeting) { return static_cast<uint32_t>(meeting.key); }
constexpr uint32_t arrived_at(const Rendezvous& meeting) { return static_cast<uint32_t>(meeting.arrivals); }
constexpr uint32_t votes_of(const Rendezvous& meeting) {
    return static_cast<uint32_t>(meeting.arrivals >> 32);
}
constexpr Op op_of(const Rendezvous& meeting) { return static_cast<Op>(meeting.key >> 32); }

// A meeting has an edge of its own: on a shared one, a lane that wakes late would acquire what an early one
// has already released for the next meeting, and races between the two would go unseen.
constexpr uint32_t sync_edge_count = 256;

// Most fields are sets of lanes, a bit each. A living lane is in at most one of at_barrier, at_activemask and
// the arrivals at one open rendezvous; if it is in none, and not asleep, it can run.
struct Warp {
    uint32_t live;          // have not exited
    uint32_t open;          // which of `rendezvous` have lanes waiting
    int32_t quantum;        // collectives that may still complete in this turn
    uint32_t at_barrier;    // wait in __syncthreads
    uint32_t at_activemask; // wait for the others to run as far as they can
    uint32_t number;        // over the whole grid
    uint32_t polled;        // gave way because they poll, in this epoch, and met nobody since
    bool counted;           // in the worker's quiet_warps
    uint64_t epoch;         // of the worker, in which the two above were noted
    uint32_t ready;         // can run; noted between turns only
    uint32_t asleep;        // wait for virtual time (charge.h),
    uint64_t wake;          // the earliest of them until then; ~0: nobody sleeps
    uint64_t posted;        // when what the warp stored to the host is there
    Rendezvous* joined;     // by the last lane that had to look for one
    char* stacks;           // of its lanes; null: they have not run yet, or have exited
    Block* block;
    Worker* worker;
    alignas(64) Rendezvous rendezvous[warp_lanes]; // most often one is open, or two
    alignas(64) uint64_t value[warp_lanes];        // operands
    uint64_t result[warp_lanes];
    uint32_t source[warp_lanes]; // shuffles: the lane to read
#if SIMT_TSAN
    uint32_t opened;
    uint64_t sync_edges[sync_edge_count];
#endif
    Lane lanes[warp_lanes];
};

// Notes which lanes can run.
void note_ready(Warp& warp);

} // namespace simt
