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
        const uint32_t group = mask_of(meeting) & warp.live;
        if (arrived_at(meeting) == group)
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

void start_lane(Worker& worker, Warp& warp, uint32_t thread) {
    Lane& lane = warp.lanes[thread % warp_lanes];
    lane.warp = &warp;
    lane.worker = &worker;
    lane.index = static_cast<uint8_t>(thread % warp_lanes);
    lane.thread = static_cast<uint16_t>(thread);
    lane.polls = 0;
    lane.time = 0;
}

void start_warp(Worker& worker, Block& block, uint32_t index) {
    Warp& warp = block.warps[index];
    std::memset(static_cast<void*>(&warp), 0, sizeof warp);
    warp.block = &block;
    warp.worker = &worker;
    warp.number = block.index.x * worker.warps_per_block + index;
    warp.epoch = ~0ull;
    warp.wake = ~0ull;
    for (Rendezvous& meeting : warp.rendezvous)
        meeting.key = closed;
    warp.joined = warp.rendezvous;
    const uint32_t first = index * warp_lanes, end = worker.launch.block_x;
    for (uint32_t thread = first; thread < first + warp_lanes && thread < end; ++thread) {
        start_lane(worker, warp, thread);
        warp.live |= 1u << (thread - first);
    }
    warp.ready = warp.live;
    worker.warps[worker.warp_count++] = &warp;
    if (worker.keeps_stacks)
        give_stacks(worker, warp);
}

void release_block(Worker& worker, Block& block) {
    for (uint32_t i = 0; block.started && i < block.warp_count; ++i)
        release_stacks(worker, block.warps[i]);
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
    return block.warps && (!shared || block.shared) && (!launch.store_buffer || block.stores);
}

// A warp's stacks.
size_t set_bytes(const Worker& worker) {
    const uint32_t lanes = worker.launch.block_x < warp_lanes ? worker.launch.block_x : warp_lanes;
    return worker.stack_stride * lanes;
}

// Addresses for the stacks of all resident warps: memory comes as they are used.
bool allocate_stacks(Worker& worker) {
    const size_t sets = static_cast<size_t>(worker.block_count) * worker.warps_per_block;
    const size_t each = set_bytes(worker), bytes = each * sets;
    worker.unused_stacks = static_cast<char**>(std::calloc(sets + 1, sizeof(char*)));
    if (!worker.unused_stacks || !sets)
        return worker.unused_stacks;
    void* stacks =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return false;
    worker.stacks = static_cast<char*>(stacks);
    for (size_t at = 0; worker.launch.flags & WB_SIMT_GUARD_PAGES && at < bytes; at += worker.stack_stride)
        if (mprotect(worker.stacks + at, page, PROT_NONE) != 0)
            return false;
    // The first is used first.
    while (worker.unused < sets) {
        worker.unused_stacks[worker.unused] = worker.stacks + (sets - 1 - worker.unused) * each;
        ++worker.unused;
    }
    return true;
}

} // namespace

bool allocate_blocks(Worker& worker) {
    worker.warps = static_cast<Warp**>(
        std::calloc(static_cast<size_t>(worker.block_count) * worker.warps_per_block + 1, sizeof(Warp*)));
    worker.blocks = static_cast<Block*>(std::calloc(worker.block_count + 1, sizeof(Block)));
    if (!worker.warps || !worker.blocks || !allocate_stacks(worker))
        return false;
    for (uint32_t i = 0; i < worker.block_count; ++i)
        if (!allocate_block(worker, worker.blocks[i]))
            return false;
    return true;
}

void free_blocks(Worker& worker) {
    for (uint32_t i = 0; worker.blocks && i < worker.block_count; ++i) {
        Block& block = worker.blocks[i];
        release_block(worker, block);
        std::free(block.warps);
        std::free(block.shared);
        destroy_store_buffer(block.stores);
    }
    if (worker.stacks)
        munmap(worker.stacks, set_bytes(worker) * worker.block_count * worker.warps_per_block);
    std::free(worker.unused_stacks);
    std::free(worker.blocks);
    std::free(worker.warps);
}

void give_stacks(Worker& worker, Warp& warp) {
    warp.stacks = worker.unused_stacks[--worker.unused];
    const size_t guard = worker.launch.flags & WB_SIMT_GUARD_PAGES ? page : 0;
    for (uint32_t live = warp.live; live; live &= live - 1) {
        Lane& lane = warp.lanes[__builtin_ctz(live)];
        char* stack = warp.stacks + lane.index * worker.stack_stride + guard;
        prepare_context<lane_main>(lane.context, stack, worker.stack_bytes, stack_skew(lane.thread));
        tsan_release(&lane);
    }
}

void release_stacks(Worker& worker, Warp& warp) {
    if (!warp.stacks)
        return;
    for (Lane& lane : warp.lanes)
        if (lane.worker)
            release_context(lane.context, worker.owner);
    worker.unused_stacks[worker.unused++] = warp.stacks;
    warp.stacks = nullptr;
}

bool start_next_block(Worker& worker, Block& block) {
    release_block(worker, block);
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
