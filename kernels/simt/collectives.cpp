// collectives.cpp - results of warp collectives, computed once by the last lane to arrive.
#include "schedule.h"

#include "charge.h"
#include "store_buffer.h"

namespace [[gnu::visibility("hidden")]] simt {

namespace {

constexpr uint32_t everyone = 0xffffffffu;
// What a shuffle reads from a lane that takes no part: undefined in CUDA, so make its use conspicuous.
constexpr uint64_t poison = 0xbad0bad0bad0bad0ull;

// Calls f(lane) for each lane of the group; a full warp is a loop of fixed length, which compilers
// vectorise.
template <class F> SIMT_INLINE void for_each(uint32_t group, F f) {
    if (SIMT_LIKELY(group == everyone)) {
        for (uint32_t i = 0; i < warp_lanes; ++i)
            f(i);
    } else {
        for (uint32_t rest = group; rest; rest &= rest - 1)
            f(static_cast<uint32_t>(__builtin_ctz(rest)));
    }
}

SIMT_INLINE void give_all(Warp& warp, uint32_t group, uint64_t result) {
    for_each(group, [&](uint32_t i) SIMT_NO_TSAN { warp.result[i] = result; });
}

SIMT_INLINE void shuffle(Warp& warp, Op op, uint32_t group) {
    if (SIMT_LIKELY(group == everyone)) {
        for (uint32_t i = 0; i < warp_lanes; ++i)
            warp.result[i] = warp.value[warp.source[i]];
        return;
    }
    const bool strict = warp.worker->launch.flags & WB_SIMT_STRICT_SHUFFLE;
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        const uint32_t i = static_cast<uint32_t>(__builtin_ctz(rest)), from = warp.source[i];
        const bool there = group >> from & 1;
        if (SIMT_UNLIKELY(!there && strict))
            fail(warp.lanes[i], Fault::inactive_source, op, group, from);
        warp.result[i] = there ? warp.value[from] : poison;
    }
}

// Whether no two lanes have the same value. False: perhaps not.
SIMT_INLINE bool all_differ(const Warp& warp, uint32_t group) {
    uint64_t seen[16] = {};
    uint64_t twice = 0;
    for_each(group, [&](uint32_t i) SIMT_NO_TSAN {
        uint64_t& word = seen[warp.value[i] >> 6 & 15];
        const uint64_t bit = 1ull << (warp.value[i] & 63);
        twice |= word & bit;
        word |= bit;
    });
    return twice == 0;
}

// A round for each distinct value; most often all are distinct.
SIMT_INLINE void match_any(Warp& warp, uint32_t group) {
    if (all_differ(warp, group)) {
        for_each(group, [&](uint32_t i) SIMT_NO_TSAN { warp.result[i] = 1ull << i; });
        return;
    }
    for (uint32_t rest = group; rest;) {
        const uint64_t value = warp.value[__builtin_ctz(rest)];
        uint32_t same = 0;
        for_each(rest, [&](uint32_t i)
                           SIMT_NO_TSAN { same |= static_cast<uint32_t>(warp.value[i] == value) << i; });
        for_each(same, [&](uint32_t i) SIMT_NO_TSAN { warp.result[i] = same; });
        rest &= ~same;
    }
}

SIMT_INLINE uint32_t match_all(Warp& warp, uint32_t group) {
    const uint64_t value = warp.value[__builtin_ctz(group)];
    bool same = true;
    for_each(group, [&](uint32_t i) SIMT_NO_TSAN { same &= warp.value[i] == value; });
    return same ? group : 0;
}

SIMT_INLINE uint32_t combine(Op op, uint32_t a, uint32_t b) {
    const auto x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
    switch (op) {
    case Op::add:
        return a + b;
    case Op::min:
        return a < b ? a : b;
    case Op::max:
        return a > b ? a : b;
    case Op::min_signed:
        return x < y ? a : b;
    case Op::max_signed:
        return x > y ? a : b;
    case Op::bit_and:
        return a & b;
    case Op::bit_or:
        return a | b;
    default:
        return a ^ b;
    }
}

SIMT_INLINE uint32_t reduce_group(Warp& warp, Op op, uint32_t group) {
    auto result = static_cast<uint32_t>(warp.value[__builtin_ctz(group)]);
    for (uint32_t rest = group & (group - 1); rest; rest &= rest - 1)
        result = combine(op, result, static_cast<uint32_t>(warp.value[__builtin_ctz(rest)]));
    return result;
}

SIMT_INLINE void compute_results(Warp& warp, Op op, uint32_t group, uint32_t votes) {
    switch (op) {
    case Op::syncwarp:
        return;
    case Op::ballot:
        return give_all(warp, group, votes);
    case Op::any:
        return give_all(warp, group, votes != 0);
    case Op::all:
        return give_all(warp, group, votes == group);
    case Op::shfl:
    case Op::shfl_up:
    case Op::shfl_down:
    case Op::shfl_xor:
        return shuffle(warp, op, group);
    case Op::match_any:
        return match_any(warp, group);
    case Op::match_all:
        return give_all(warp, group, match_all(warp, group));
    default:
        return give_all(warp, group, reduce_group(warp, op, group));
    }
}

} // namespace

SIMT_NO_TSAN void complete(Warp& warp, Rendezvous& meeting, uint32_t group) {
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
    if (op != Op::syncwarp)
        compute_results(warp, op, group, votes_of(meeting));
    else if (SIMT_UNLIKELY(worker.weak))
        publish_to_warp(warp, group);
}

} // namespace simt
