// schedule.cpp - the parts of scheduling that are not on the way of every collective.
#include "schedule.h"

#include "charge.h"
#include "cuda.h"
#include "store_buffer.h"

#include <cstdlib>

namespace [[gnu::visibility("hidden")]] simt {

SIMT_NO_TSAN uint32_t pick_random(Worker& worker) {
    uint32_t lanes = running.turn;
    auto skip = (next_random(worker) >> 20) % static_cast<uint32_t>(__builtin_popcount(lanes));
    while (skip--)
        lanes &= lanes - 1;
    running.turn &= ~(lanes & -lanes);
    return static_cast<uint32_t>(__builtin_ctz(lanes));
}

// There are never more meetings than lanes, so there is always a free place.
SIMT_NO_TSAN static Rendezvous& open_rendezvous(Warp& warp, uint64_t key) {
    const auto place = static_cast<uint32_t>(__builtin_ctz(~warp.open));
    Rendezvous& meeting = warp.rendezvous[place];
    warp.open |= 1u << place;
    meeting.key = key;
    meeting.arrivals = 0;
#if SIMT_TSAN
    meeting.edge = &warp.sync_edges[warp.opened++ % sync_edge_count];
#endif
    return meeting;
}

SIMT_NO_TSAN static Rendezvous& find_rendezvous(Warp& warp, uint64_t key) {
    for (uint32_t open = warp.open; open; open &= open - 1) {
        Rendezvous& meeting = warp.rendezvous[__builtin_ctz(open)];
        if (meeting.key == key)
            return meeting;
    }
    return open_rendezvous(warp, key);
}

SIMT_NO_TSAN Rendezvous* begin_meeting(Lane& lane, uint32_t mask, Op op, bool may_be_alone) {
    Warp& warp = *lane.warp;
    const uint32_t bit = 1u << lane.index;
    if (SIMT_UNLIKELY(!(mask & bit)))
        fail(lane, Fault::not_in_mask, op, mask, 0);
    Worker& worker = *warp.worker;
    const bool alone = (mask & warp.live) == bit && may_be_alone;
    if (alone && warp.quantum > 1 && !worker.slow) {
        --warp.quantum;
        ++worker.count.collectives;
        warp.polled &= ~bit;
        return nullptr;
    }
    return warp.joined = &find_rendezvous(warp, key_of(mask, op));
}

SIMT_NO_TSAN bool end_meeting(Lane& lane, Rendezvous& meeting, uint32_t group) {
    Warp& warp = *lane.warp;
    complete(warp, meeting, group);
    // The last to arrive goes on without a switch, unless the turn is over or the seed wants variety.
    if (warp.quantum <= 0 || warp.worker->random)
        return true;
    running.turn &= ~(1u << lane.index);
    return false;
}

SIMT_NO_TSAN void preempt(Lane& lane) {
    Worker& worker = *lane.worker;
    ++worker.count.preemptions;
    // Either to the other lanes of this warp, or to another warp at once.
    if (next_random(worker) >> 63)
        running.turn = 0;
    leave(lane);
}

SIMT_NO_TSAN void spin(Lane& lane) { yield_polling(lane); }

// Blames a lane, and leaves the one that runs for good.
SIMT_COLD void fail(Lane& lane, Fault what, Op op, uint32_t mask, uint32_t value, const char* text) {
    Worker& worker = *lane.worker;
    worker.fault = {what, &lane, op, mask, value, text};
    worker.state = WB_SIMT_FAULT;
    Lane* here = running.lane;
    running.lane = nullptr;
    switch_context(here->context, worker.owner);
    __builtin_trap();
}

SIMT_COLD void trap(const char* text) {
    if (!running.lane)
        std::abort();
    fail(*running.lane, Fault::trap, Op::syncwarp, 0, 0, text);
}

SIMT_NO_TSAN uint32_t activemask(const char* file, uint32_t line) {
    Lane& lane = *running.lane;
    Warp& warp = *lane.warp;
    const uint32_t bit = 1u << lane.index;
    warp.value[lane.index] = reinterpret_cast<uintptr_t>(file) * 65536 + line;
    warp.at_activemask |= bit;
    leave(lane);
    return static_cast<uint32_t>(warp.result[lane.index]);
}

SIMT_NO_TSAN void note_ready(Warp& warp) {
    uint32_t blocked = warp.at_barrier | warp.at_activemask;
    for (uint32_t open = warp.open; open; open &= open - 1)
        blocked |= arrived_at(warp.rendezvous[__builtin_ctz(open)]);
    warp.ready = warp.live & ~blocked & ~warp.asleep;
}

SIMT_NO_TSAN bool try_release_barrier(Block& block) {
    if (block.at_barrier == 0 || block.at_barrier != block.live)
        return false;
    block.at_barrier = 0;
#if SIMT_TSAN
    ++block.barrier_round;
#endif
    block.warps[0].worker->progress = true;
    if (block.stores)
        publish_to_block(block);
    if (block.warps[0].worker->charges)
        charge_barrier(block);
    for (uint32_t i = 0; i < block.warp_count; ++i) {
        block.warps[i].at_barrier = 0;
        note_ready(block.warps[i]);
    }
    return true;
}

SIMT_NO_TSAN void sync_threads() {
    Lane& lane = *running.lane;
    Warp& warp = *lane.warp;
    Block& block = *warp.block;
    const uint32_t bit = 1u << lane.index;
#if SIMT_TSAN
    void* edge = &block.barrier_edge[block.barrier_round & 1];
    tsan_release(edge);
#endif
    warp.at_barrier |= bit;
    ++block.at_barrier;
    const uint32_t waiting = warp.at_barrier;
    // Its own warp goes on in the same turn, while its quantum lasts.
    if (try_release_barrier(block) && --warp.quantum > 0)
        running.turn |= waiting;
    leave(lane);
#if SIMT_TSAN
    tsan_acquire(edge);
#endif
}

} // namespace simt
