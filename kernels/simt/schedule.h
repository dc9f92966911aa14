// schedule.h - how a lane leaves the processor, and how it meets others.
//
// A warp's turn runs each ready lane until it blocks or gives way, by handing over from lane to lane; the
// owner's stack is entered only when nobody is left in the turn.
#pragma once

#include "worker.h"

namespace [[gnu::visibility("hidden")]] simt {

uint32_t pick_random(Worker& worker);
void preempt(Lane& lane);
// A full rendezvous: results for all, and everybody may run again.
void complete(Warp& warp, Rendezvous& meeting, uint32_t group);
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
    Lane* next = SIMT_LIKELY(running.turn) ? &next_lane(worker) : nullptr;
    if (SIMT_UNLIKELY(next == &lane)) // of a barrier that it was the last to come to, or by chance
        return;
    running.lane = next;
    switch_context<last>(lane.context, next ? next->context : worker.owner);
}

// Gives way because there is nothing to do but poll.
SIMT_INLINE void yield_polling(Lane& lane) {
    lane.warp->polled |= 1u << lane.index;
    leave(lane);
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

// Where a lane meets the others of its mask that is the first of them, or comes elsewhere than the lane
// before. Null: it meets nobody, and goes on.
Rendezvous* begin_meeting(Lane& lane, uint32_t mask, Op op, bool may_be_alone);
// By the lane that was the last to come. Whether it gives way.
bool end_meeting(Lane& lane, Rendezvous& meeting, uint32_t group);

// Meets the other lanes of `mask` and returns this lane's result. A lane that comes where the one
// before has makes no call here, but for the last.
template <Op op> SIMT_ENTRY uint64_t meet(uint32_t mask, uint64_t value, uint32_t source) {
    Lane& lane = *running.lane;
    Warp& warp = *lane.warp;
    const uint32_t index = lane.index;
    Rendezvous* meeting = warp.joined;
    if (meeting->key != key_of(mask, op) || SIMT_UNLIKELY(!(mask >> index & 1))) {
        meeting = begin_meeting(lane, mask, op, !is_shuffle<op> || source == index);
        if (!meeting)
            return result_alone<op>(index, value);
    }
#if SIMT_TSAN
    // __syncwarp orders memory, so it makes happens-before edges for the race detector. The other collectives
    // order nothing, and make none.
    void* edge = meeting->edge;
    if constexpr (op == Op::syncwarp)
        tsan_release(edge);
#endif
    const uint32_t group = mask & warp.live;
    if (arrive<op>(warp, *meeting, index, value, source) != group || end_meeting(lane, *meeting, group))
        leave(lane);
#if SIMT_TSAN
    if constexpr (op == Op::syncwarp)
        tsan_acquire(edge);
#endif
    return op == Op::syncwarp ? 0 : warp.result[index];
}

} // namespace simt
