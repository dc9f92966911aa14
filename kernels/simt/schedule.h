// schedule.h - how a lane leaves the processor, and how it meets others.
//
// A warp's turn runs each ready lane until it blocks or gives way, by handing over from lane to lane; the
// owner's stack is entered only when nobody is left in the turn.
#pragma once

#include "worker.h"

namespace [[gnu::visibility("hidden")]] simt {

uint32_t pick_random(Worker& worker);
Rendezvous& find_rendezvous(Warp& warp, uint32_t mask, Op op);
void preempt(Lane& lane);
void publish_to_warp(Warp& warp, uint32_t group);
void charge_meeting(Warp& warp, uint32_t group); // charge.h
[[noreturn]] void fail(Lane& lane, Fault what, Op op, uint32_t mask, uint32_t value, const char* text = "");

// Takes the next lane out of the turn.
SIMT_INLINE Lane& next_lane(Worker& worker) {
    const uint32_t turn = running.turn;
    if (SIMT_UNLIKELY(worker.random))
        return running.lanes[pick_random(worker)];
    running.turn = turn & (turn - 1);
    return running.lanes[__builtin_ctz(turn)];
}

// Leaves the running lane for another one of its warp's turn, else for the owner.
template <bool last = false> SIMT_INLINE void leave(Lane& lane) {
    Worker& worker = *lane.worker;
    worker.spin_left = spin_limit;
    ++worker.count.switches;
    if (SIMT_LIKELY(running.turn)) {
        Lane& next = next_lane(worker);
        if (SIMT_UNLIKELY(&next == &lane)) // of a barrier that it was the last to come to, or by chance
            return;
        running.lane = &next;
        switch_context<last>(lane.context, next.context);
    } else {
        running.lane = nullptr;
        switch_context<last>(lane.context, worker.owner);
    }
}

// Gives way because there is nothing to do but poll.
SIMT_INLINE void yield_polling(Lane& lane) {
    lane.warp->polled |= 1u << lane.index;
    leave(lane);
}

// Opens a rendezvous at a free place.
SIMT_INLINE void open_rendezvous(Warp& warp, Rendezvous& meeting, uint32_t mask, Op op) {
    warp.open |= 1u << static_cast<uint32_t>(&meeting - warp.rendezvous);
    warp.joined = &meeting;
    meeting.key = key_of(mask, op);
    meeting.arrivals = 0;
#if SIMT_TSAN
    meeting.edge = &warp.sync_edges[warp.opened++ % sync_edge_count];
#endif
}

// Most lanes meet where the one before has, also while others of the warp wait elsewhere.
SIMT_INLINE Rendezvous& join_rendezvous(Warp& warp, uint32_t mask, Op op) {
    Rendezvous& last = *warp.joined;
    if (SIMT_LIKELY(last.key == key_of(mask, op)))
        return last;
    return find_rendezvous(warp, mask, op);
}

// A full rendezvous: results for all, and everybody may run again.
SIMT_INLINE void complete(Warp& warp, Rendezvous& meeting, uint32_t group) {
    Worker& worker = *warp.worker;
    const Op op = op_of(meeting);
    meeting.key = closed;
    warp.open &= ~(1u << static_cast<uint32_t>(&meeting - warp.rendezvous));
    ++worker.count.collectives;
    warp.polled &= ~group;
    if (SIMT_UNLIKELY(worker.slow) && worker.charges)
        charge_meeting(warp, group);
    if (SIMT_LIKELY(--warp.quantum > 0))
        running.turn |= group;
    if (op != Op::syncwarp) {
        compute_results(warp, op, group, votes_of(meeting));
        return;
    }
    if (SIMT_UNLIKELY(worker.weak))
        publish_to_warp(warp, group);
}

template <Op op> constexpr bool is_vote = op == Op::ballot || op == Op::any || op == Op::all;

template <Op op>
constexpr bool is_shuffle = op == Op::shfl || op == Op::shfl_up || op == Op::shfl_down || op == Op::shfl_xor;

// What a lane gets that meets nobody but itself.
template <Op op> SIMT_INLINE uint64_t result_alone(uint32_t index, uint64_t value) {
    if constexpr (op == Op::ballot)
        return value << index;
    if constexpr (op == Op::match_any || op == Op::match_all)
        return 1u << index;
    return op == Op::syncwarp ? 0 : value;
}

// Notes that the lane has come, with its operand. Returns who has.
template <Op op>
SIMT_INLINE uint32_t arrive(Warp& warp, Rendezvous& meeting, uint32_t index, uint64_t value,
                            uint32_t source) {
    // One word for arrivals and votes: of two -O3 made a vector, whose latency each switch waits for.
    const uint64_t vote = is_vote<op> ? value : 0;
    const uint64_t arrivals = meeting.arrivals | (vote << 32 | 1) << index;
    meeting.arrivals = arrivals;
    if constexpr (!is_vote<op> && op != Op::syncwarp) {
        warp.value[index] = value;
        warp.source[index] = source;
    }
    return static_cast<uint32_t>(arrivals);
}

// Meets the other lanes of `mask` and returns this lane's result.
template <Op op> SIMT_ENTRY uint64_t meet(uint32_t mask, uint64_t value, uint32_t source) {
    Lane& lane = *running.lane;
    Warp& warp = *lane.warp;
    const uint32_t index = lane.index;
    const uint32_t bit = 1u << index;
    if (SIMT_UNLIKELY(!(mask & bit)))
        fail(lane, Fault::not_in_mask, op, mask, 0);
    Worker& worker = *warp.worker;
    const bool own = (mask & warp.live) == bit && (!is_shuffle<op> || source == index);
    if (own && warp.quantum > 1 && SIMT_LIKELY(!worker.slow)) {
        --warp.quantum;
        ++worker.count.collectives;
        warp.polled &= ~bit;
        return result_alone<op>(index, value);
    }
    Rendezvous& meeting = join_rendezvous(warp, mask, op);
#if SIMT_TSAN
    // __syncwarp orders memory, so it makes happens-before edges for the race detector. The other collectives
    // order nothing, and make none.
    void* edge = meeting.edge;
    if constexpr (op == Op::syncwarp)
        tsan_release(edge);
#endif
    const uint32_t group = mask & warp.live;
    if (arrive<op>(warp, meeting, index, value, source) != group) {
        leave(lane);
    } else {
        complete(warp, meeting, group);
        // The last to arrive goes on without a switch, unless the turn is over or the seed wants variety.
        if (SIMT_LIKELY(warp.quantum > 0 && !worker.random))
            running.turn &= ~bit;
        else
            leave(lane);
    }
#if SIMT_TSAN
    if constexpr (op == Op::syncwarp)
        tsan_acquire(edge);
#endif
    return op == Op::syncwarp ? 0 : warp.result[index];
}

} // namespace simt
