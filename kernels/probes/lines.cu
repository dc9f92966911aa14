// Kernels `probe_lines_*`: one lane's parts of a lookup in a page cache, without the I/O. A mode is a policy.
#include "probe.cuh"

#include <warpbell/evict.cuh>

namespace probes {

struct lines_args {
    warpbell_cache_ref cache;
    u64 page, state;
    u32* out;
    u32 line;
};

template <class Policy> WARPBELL_D void attach(const lines_args& args) {
    store_result(args.out, cache_lines(args.cache).count());
}
// A page that is there: it is found and pinned, and released.
template <class Policy, bool Stored> WARPBELL_D void found(const lines_args& args) {
    const cache_lines lines(args.cache);
    u32 line = cache_lines::none;
    bool used = false;
    const cache_lines::found how = lines.find_and_pin(args.page, line, used);
    if (how == cache_lines::found::ready) {
        lines.unpin<Policy>(line, Stored, used);
    }
    store_result(args.out, static_cast<u32>(how) + line);
}
template <class Policy> WARPBELL_D void hit(const lines_args& args) { found<Policy, false>(args); }
template <class Policy> WARPBELL_D void stored(const lines_args& args) { found<Policy, true>(args); }

// A page that is not there: its bucket is claimed, a line chosen.
template <class Policy> WARPBELL_D void claim(const lines_args& args) {
    const cache_lines lines(args.cache);
    u32 line = cache_lines::none;
    u64 state = 0;
    if (lines.begin_miss(args.page, line) == cache_lines::found::ours) {
        line = lines.claim<Policy>(state, true);
    }
    store_result(args.out, state + line);
}
// The line gets that page, and is ready or failed then.
template <class Policy> WARPBELL_D void fill(const lines_args& args) {
    const cache_lines lines(args.cache);
    lines.give(args.line, args.state, args.page);
    lines.settle(args.line, status::from_bits(args.out[0]));
    store_result(args.out, lines.count());
}

} // namespace probes

#define WARPBELL_LINES_PROBE(call)                                                                           \
    WARPBELL_PROBE_WITH(lines, call, clock, warpbell::clock_sweep)                                           \
    WARPBELL_PROBE_WITH(lines, call, fifo, warpbell::fifo)                                                   \
    WARPBELL_PROBE_WITH(lines, call, lru, warpbell::sampled_lru<>)

WARPBELL_LINES_PROBE(attach)
WARPBELL_LINES_PROBE(hit)
WARPBELL_LINES_PROBE(stored)
WARPBELL_LINES_PROBE(claim)
// Alike for all policies.
WARPBELL_PROBE_WITH(lines, fill, clock, warpbell::clock_sweep)
