// Which line a page that is not there gets: policies of the cache (cache.cuh), each a type. Yours may be one.
//
// | policy           | takes                                                         | costs a hit        |
// | ---------------- | ------------------------------------------------------------- | ------------------ |
// | clock_sweep      | in turn, but spares once what was used since its last turn     | nothing            |
// | fifo             | in turn                                                       | nothing            |
// | sampled_lru<N>   | of N drawn lines the one that was used longest ago             | clock and a store  |
// | pinned_set<P>    | as P, but never pages [kept_first, kept_first + kept_pages)    | as P               |
//
// A policy proposes lines; the cache takes one that nobody has pinned. `candidate(lines, attempt)` names a
// line; it is asked again, with the next attempt, where that one cannot be had, and within two calls for each
// line of the cache it must have named each, whatever the attempt: a try to get a line begins at 0, and ends
// after 256 calls. `spares(lines, line, state)` may keep the line for now.
// `marks_use`: a line that is released has the bit `used` in its state. `stamps_use`: and its time.
#pragma once

#include "impl/cache_lines.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

struct fifo {
    static constexpr bool marks_use = false, stamps_use = false;
    WARPBELL_D static u32 candidate(const cache_lines& lines, u32) { return lines.turn_hand(); }
    WARPBELL_D static bool spares(const cache_lines&, u32, u64) { return false; }
};

struct clock_sweep : fifo {
    static constexpr bool marks_use = true;
    WARPBELL_D static bool spares(const cache_lines& lines, u32 line, u64 state) {
        return line_bits::is_used(state) && lines.clear_used(line, state);
    }
};

template <u32 Samples = 8> struct sampled_lru {
    static constexpr bool marks_use = false, stamps_use = true;
    static constexpr u32 slack = 1u << 20; // about a second
    // From the second attempt on in turn: it may be that only one line can be had.
    WARPBELL_D static u32 candidate(const cache_lines& lines, u32 attempt) {
        u32 best = lines.turn_hand();
        if (attempt != 0) {
            return best;
        }
        bool found = line_bits::is_open(lines.state(best));
        // Lines that others use meanwhile have later stamps, and are not to look like the oldest.
        const u32 now = cache_lines::now() + (mutate::cache_late_stamp_oldest ? 0 : slack);
        const u64 draw = best + static_cast<u64>(now) * lines.count();
        WARPBELL_NO_UNROLL
        for (u32 n = 0; n < Samples; ++n) {
            const u32 other = lines.drawn(draw * Samples + n);
            const bool open = line_bits::is_open(lines.state(other));
            // An empty line was never used, and a difference of times does not mind their overflow.
            const bool older = now - lines.stamp(other) > now - lines.stamp(best);
            best = open && (older || !found) ? other : best;
            found = found || open;
        }
        return best;
    }
    WARPBELL_D static bool spares(const cache_lines&, u32, u64) { return false; }
};

template <class Policy = clock_sweep> struct pinned_set : Policy {
    WARPBELL_D static bool spares(const cache_lines& lines, u32 line, u64 state) {
        return (line_bits::phase_of(state) == line_phase::ready && lines.is_kept(line) &&
                !mutate::cache_kept_taken) ||
               Policy::spares(lines, line, state);
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
