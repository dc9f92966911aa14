// explore.cpp - see explore.h.
#include "explore.h"
#include "executor.h"
#include "store_buffer.h"

#include <cstring>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

// Below the stack pointer of a lane that stopped, so much is cleared: what earlier calls left there would
// make otherwise equal stacks differ, and their number explode.
constexpr size_t cleared_bytes = 1024;

// The words before a lane's stack; then come its waiting stores. The first counts all but those.
struct Saved {
    uint64_t control_words, stores;
    Stop stop;
    uint64_t live;
    Registers registers;
};
constexpr uint64_t saved_words = (sizeof(Saved) + 7) / 8;
constexpr uint64_t store_words = sizeof(wb_simt_waiting) / 8;

Lane& lane_of(const wb_simt* worker, uint32_t block) { return worker->worker.blocks[block].warps->lanes[0]; }

char* stack_pointer(const Lane& lane) {
#if defined(WARPBELL_SIMT_BOOST)
    return static_cast<char*>(lane.context.registers.handle);
#else
    return static_cast<char*>(lane.context.registers.sp);
#endif
}

char* stack_top(const wb_simt* worker, uint32_t block) {
    return worker->worker.blocks[block].warps->stacks + worker->worker.stack_stride;
}

wb_simt_waiting waiting_of(const PendingStore& store) {
    wb_simt_waiting waiting = {store.address, store.bytes,       store.doorbell,
                               store.stored,  store.fenced != 0, {}};
    std::memcpy(waiting.value, store.value, store.bytes);
    return waiting;
}

wb_simt_stop stop_of(const Block& block) {
    return {block.stop.kind, block.stop.bytes, block.stop.address, block.stores->count, 0};
}

// Counts fences from the oldest store on, so that states that behave alike are alike. Each entry is of this
// lane: the first fence after it was the one that marked it.
void renumber(StoreBuffer& buffer) {
    uint32_t last = 0, epoch = 0;
    for (uint32_t i = 0; i < buffer.count; ++i) {
        PendingStore& store = buffer.entries[i];
        epoch += i > 0 && store.stored != last;
        last = store.stored;
        store.stored = epoch;
        store.fenced = store.fenced ? epoch + 1 : 0;
    }
    const bool fenced = buffer.count && buffer.entries[buffer.count - 1].fenced;
    buffer.fences = epoch + fenced;
}

void note_stop(Block& block, uint32_t kind, uint64_t address, uint32_t bytes) {
    block.stop = {kind, bytes, address};
}

void advance(wb_simt* explored, uint32_t index, wb_simt_stop* stop) {
    Worker& worker = explored->worker;
    Block& block = worker.blocks[index];
    Lane& lane = lane_of(explored, index);
    block.stop = {WB_SIMT_STOP_NONE, 0, 0};
    while (block.stop.kind == WB_SIMT_STOP_NONE) {
        running.lanes = block.warps->lanes;
        running.turn = 0;
        worker.spin_left = ~0u;
        run_lane(worker, lane);
        if (worker.state == WB_SIMT_FAULT) {
            report_fault(worker);
            block.stop.kind = WB_SIMT_STOP_FAULT;
        } else if (!block.warps->live) {
            block.stop.kind = WB_SIMT_STOP_DONE;
        }
    }
    std::memset(stack_pointer(lane) - cleared_bytes, 0, cleared_bytes);
    renumber(*block.stores);
    *stop = stop_of(block);
}

void waiting(const wb_simt* explored, uint32_t block, uint32_t index, wb_simt_waiting* store) {
    *store = waiting_of(explored->worker.blocks[block].stores->entries[index]);
}

void drain(wb_simt* explored, uint32_t block, uint32_t index) {
    drain_to_memory(explored->worker, *explored->worker.blocks[block].stores, index);
    renumber(*explored->worker.blocks[block].stores);
}

uint64_t save(const wb_simt* explored, uint32_t index, uint64_t* to, uint64_t room) {
    const Block& block = explored->worker.blocks[index];
    const Lane& lane = lane_of(explored, index);
    // A lane that has returned has nothing left on its stack.
    char* top = stack_top(explored, index);
    char* bottom = block.warps->live ? stack_pointer(lane) : top;
    const uint64_t stack_words = static_cast<uint64_t>(top - bottom) / 8;
    Saved saved = {saved_words + stack_words, block.stores->count, block.stop, block.warps->live, {}};
    if (block.warps->live)
        saved.registers = lane.context.registers;
    const uint64_t words = saved.control_words + saved.stores * store_words;
    if (words > room)
        return words;
    std::memcpy(to, &saved, sizeof saved);
    std::memcpy(to + saved_words, bottom, stack_words * 8);
    to += saved.control_words;
    for (uint32_t i = 0; i < block.stores->count; ++i, to += store_words) {
        const wb_simt_waiting store = waiting_of(block.stores->entries[i]);
        std::memcpy(to, &store, sizeof store);
    }
    return words;
}

void restore(wb_simt* explored, uint32_t index, const uint64_t* from, wb_simt_stop* stop) {
    Block& block = explored->worker.blocks[index];
    Lane& lane = lane_of(explored, index);
    Saved saved;
    std::memcpy(&saved, from, sizeof saved);
    const uint64_t stack_words = saved.control_words - saved_words;
    char* bottom = stack_top(explored, index) - stack_words * 8;
    std::memcpy(bottom, from + saved_words, stack_words * 8);
    from += saved.control_words;
    block.stop = saved.stop;
    block.live = block.warps->live = static_cast<uint32_t>(saved.live);
    lane.context.registers = saved.registers;
    lane.buffered = block.stores->count = static_cast<uint32_t>(saved.stores);
    for (uint32_t i = 0; i < block.stores->count; ++i, from += store_words) {
        wb_simt_waiting store;
        std::memcpy(&store, from, sizeof store);
        PendingStore& entry = block.stores->entries[i];
        entry = {store.address,
                 store.bytes,
                 1,
                 &lane,
                 false,
                 store.doorbell != 0,
                 store.epoch,
                 store.fenced ? store.epoch + 1 : 0,
                 {}};
        std::memcpy(entry.value, store.value, store.bytes);
    }
    renumber(*block.stores);
    if (saved.live)
        std::memset(stack_pointer(lane) - cleared_bytes, 0, cleared_bytes);
    *stop = stop_of(block);
}

} // namespace

// The call before the switch keeps the compiler from using what lies below the stack pointer, which is not
// saved.
__attribute__((noinline)) void stop_before(Lane& lane, uint32_t kind, uint64_t address, uint32_t bytes) {
    note_stop(*lane.warp->block, kind, address, bytes);
    running.lane = nullptr;
    switch_context(lane.context, lane.worker->owner);
}

const wb_simt_explore explore_table = {advance, waiting, drain, save, restore};

} // namespace simt
