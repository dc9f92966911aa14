// block.h - the warps of a block, its barrier, its shared memory and its store buffer.
#pragma once

#include "warp.h"

namespace [[gnu::visibility("hidden")]] simt {

struct StoreBuffer;

// Where the lane of an explored block stands (explore.h).
struct Stop {
    uint32_t kind, bytes;
    uint64_t address;
};

// Blocks are allocated once for each place of residence and used again for the next block of the launch.
struct Block {
    uint3 index;   // blockIdx
    uint32_t live; // lanes that have not exited
    uint32_t at_barrier;
    bool started; // `warps` are filled in
    uint32_t warp_count;
    Warp* warps;
    char* shared;
    StoreBuffer* stores; // null unless in weak-memory mode
    Stop stop;
#if SIMT_TSAN
    uint32_t barrier_round;
    uint64_t barrier_edge[2];
#endif
};

// Lets every lane go that waits in the block's barrier, if all living lanes do. Returns whether it did.
bool try_release_barrier(Block& block);

} // namespace simt
