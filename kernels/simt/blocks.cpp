// blocks.cpp - memory for blocks, the life of a lane.
#include "executor.h"
#include "schedule.h"
#include "store_buffer.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

constexpr size_t page = 4096;

// The last thing a lane does. Its going may complete what the others wait for.
[[noreturn]] SIMT_NO_TSAN void exit_lane(Lane& lane) {
    Warp& warp = *lane.warp;
    Block& block = *warp.block;
    const uint32_t bit = 1u << lane.index;
    warp.live &= ~bit;
    --block.live;
    lane.worker->progress = true;
    for (uint32_t open = warp.open; open; open &= open - 1) {
        Rendezvous& meeting = warp.rendezvous[__builtin_ctz(open)];
        const uint32_t group = meeting.mask & warp.live;
        if (meeting.arrived == group)
            complete(warp, meeting, group);
    }
    try_release_barrier(block);
#if SIMT_ASAN
    lane.context.fake_stack = nullptr;
#endif
    leave<true>(lane);
    __builtin_trap();
}

SIMT_NO_TSAN void lane_main() {
    enter_context();
    Lane& lane = *running.lane;
    const wb_simt_launch& launch = lane.worker->launch;
    tsan_acquire(&lane);
    launch.kernel(launch.args);
    exit_lane(lane);
}

// Lanes of a warp use the same depth of their stacks at the same time. Were those a power of two apart,
// they would compete for a few sets of the cache, so each stack begins some lines lower than its
// neighbour.
constexpr size_t stack_skew(uint32_t thread) { return (thread % 32 * 2 + thread / 32 * 7) * 64 % page; }

void start_lane(Worker& worker, Block& block, Warp& warp, uint32_t thread) {
    Lane& lane = warp.lanes[thread % warp_lanes];
    lane.warp = &warp;
    lane.worker = &worker;
    lane.index = thread % warp_lanes;
    lane.thread = {thread, 0, 0};
    lane.polls = 0;
    lane.time = 0;
    char* stack = block.stacks + thread * worker.stack_stride;
    if (worker.launch.flags & WB_SIMT_GUARD_PAGES)
        stack += page;
    prepare_context<lane_main>(lane.context, stack, worker.stack_bytes, stack_skew(thread));
    tsan_release(&lane);
}

void start_warp(Worker& worker, Block& block, uint32_t index) {
    Warp& warp = block.warps[index];
    std::memset(static_cast<void*>(&warp), 0, sizeof warp);
    warp.block = &block;
    warp.worker = &worker;
    warp.number = block.index.x * worker.warps_per_block + index;
    warp.epoch = ~0ull;
    warp.wake = ~0ull;
    const uint32_t first = index * warp_lanes, end = worker.launch.block_x;
    for (uint32_t thread = first; thread < first + warp_lanes && thread < end; ++thread) {
        start_lane(worker, block, warp, thread);
        warp.live |= 1u << (thread - first);
    }
    warp.ready = warp.live;
    worker.warps[worker.warp_count++] = &warp;
}

// What the block's lanes did happened before whatever the owner and later blocks do.
void forget_lanes(Worker& worker, Block& block) {
    if (!block.started)
        return;
    for (uint32_t thread = 0; thread < worker.launch.block_x; ++thread) {
        Lane& lane = block.warps[thread / warp_lanes].lanes[thread % warp_lanes];
        release_context(lane.context, worker.owner);
    }
    block.started = false;
}

bool allocate_block(Worker& worker, Block& block) {
    const wb_simt_launch& launch = worker.launch;
    block.warp_count = worker.warps_per_block;
    block.warps = static_cast<Warp*>(std::aligned_alloc(alignof(Warp), sizeof(Warp) * block.warp_count));
    const size_t shared = (launch.shared_bytes + 127ull) / 128 * 128;
    block.shared = shared ? static_cast<char*>(std::aligned_alloc(128, shared)) : nullptr;
    if (launch.store_buffer)
        block.stores = create_store_buffer(launch.store_buffer * launch.block_x);
    void* stacks = mmap(nullptr, worker.stack_stride * launch.block_x, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block.stacks = stacks == MAP_FAILED ? nullptr : static_cast<char*>(stacks);
    if (!block.warps || !block.stacks || (shared && !block.shared) || (launch.store_buffer && !block.stores))
        return false;
    for (uint32_t thread = 0; launch.flags & WB_SIMT_GUARD_PAGES && thread < launch.block_x; ++thread)
        if (mprotect(block.stacks + thread * worker.stack_stride, page, PROT_NONE) != 0)
            return false;
    return true;
}

} // namespace

bool allocate_blocks(Worker& worker) {
    worker.warps = static_cast<Warp**>(
        std::calloc(static_cast<size_t>(worker.block_count) * worker.warps_per_block + 1, sizeof(Warp*)));
    worker.blocks = static_cast<Block*>(std::calloc(worker.block_count + 1, sizeof(Block)));
    if (!worker.warps || !worker.blocks)
        return false;
    for (uint32_t i = 0; i < worker.block_count; ++i)
        if (!allocate_block(worker, worker.blocks[i]))
            return false;
    return true;
}

void free_blocks(Worker& worker) {
    for (uint32_t i = 0; worker.blocks && i < worker.block_count; ++i) {
        Block& block = worker.blocks[i];
        forget_lanes(worker, block);
        std::free(block.warps);
        std::free(block.shared);
        destroy_store_buffer(block.stores);
        if (block.stacks)
            munmap(block.stacks, worker.stack_stride * worker.launch.block_x);
    }
    std::free(worker.blocks);
    std::free(worker.warps);
}

bool start_next_block(Worker& worker, Block& block) {
    forget_lanes(worker, block);
    if (worker.next_block >= worker.launch.grid_x)
        return false;
    block.index = {static_cast<unsigned>(worker.next_block), 0, 0};
    worker.next_block += worker.launch.block_stride;
    block.live = worker.launch.block_x;
    block.at_barrier = 0;
    block.started = true;
    for (uint32_t i = 0; i < block.warp_count; ++i)
        start_warp(worker, block, i);
    return true;
}

} // namespace simt
