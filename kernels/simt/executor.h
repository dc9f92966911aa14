// executor.h - the machine behind module.h: blocks come and go, warps take turns.
#pragma once

#include "explore.h"
#include "worker.h"

namespace [[gnu::visibility("hidden")]] simt {

// blocks.cpp: places of residence and the blocks that live in them.
bool allocate_blocks(Worker& worker);
void free_blocks(Worker& worker);
bool start_next_block(Worker& worker, Block& block);
// Stacks for the lanes of a warp, before its first turn. Others use them again once they were released: what
// the lanes did happened before whatever the owner and those others do.
void give_stacks(Worker& worker, Warp& warp);
void release_stacks(Worker& worker, Warp& warp);

// hooks.cpp: runs lanes, and their calls on the owner's stack, until the turn is over.
void run_lane(Worker& worker, Lane& lane);
void tell(Worker& worker, wb_simt_event kind, uint64_t address, uint32_t bytes, const Lane& lane);
void ring(Worker& worker, uint32_t* address, uint32_t value);
// Whether it is memory of the lane's block, which nobody outside of it sees.
bool is_of_block(const Lane& lane, uint64_t address);

// explore.cpp: leaves a lane that is stepped by hand, until it is advanced.
void stop_before(Lane& lane, uint32_t kind, uint64_t address, uint32_t bytes);
extern const wb_simt_explore explore_table;

// report.cpp: texts for people.
void report_deadlock(Worker& worker);
void report_fault(Worker& worker);
__attribute__((format(printf, 2, 3))) void report(Worker& worker, const char* format, ...);

} // namespace simt
