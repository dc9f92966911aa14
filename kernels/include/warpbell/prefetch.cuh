// Reads pages of a cache before they are wanted: those that the caller names, and those that come next in a
// sequence of pages that are the same distance apart.
//
//   wb::page_cache<decltype(ssd)> pages(warp, args.cache, ssd, wb::dma_span(args.buffer));
//   using namespace wb::experimental;                          // its names may change in any release
//   prefetcher<decltype(pages)> ahead(warp, pages);            // made and called by the same lanes
//   wb::array_view<float, decltype(ahead)> x(ahead, 0, count); // as over the cache itself
//   ahead.prefetch(warp, 7, 4);                                // pages 7 to 10, and waits for none
//   ahead.detach(warp);                                        // before pages.detach(warp)
//
// It is called in the cache's place, and does what the cache does. In between it submits reads, at most `Cap`
// whose pages were not used yet, and takes up what has come.
//
// Sequences. Three pages of which each two are as far apart, forwards or backwards, begin one; up to
// `Streams` go on at a time, whatever lies between their pages. Each page that comes as expected doubles how
// many are read ahead, up to `Cap`; each one that was read in vain halves it. Where little that was read
// ahead is used, a new sequence reads nothing before it has gone on for a while.
//
// What is read ahead is nobody's yet. It takes no line that is pinned, whose page would have to be written
// first, or that somebody has read ahead and not used: without a line, or room on the queue, it is skipped.
// If the read fails, the page is not there, and whoever wants it reads it. Who wants a page that is on its
// way waits for it: for one of another warp's until that warp makes a call of its prefetcher (`collect`, if
// for nothing else) after the answer, or the deadline has passed: not_submitted. A read without an answer is
// given up by its warp's first call after the queue's deadline; until that call, its page cannot be had.
//
// A lane reads ahead only if its queue has two command ids for it (AttachOptions::commands_per_lane).
#pragma once

#include "cache.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace experimental {

// `Cap`: at most a warp's lanes; and of the lines of the cache at most half. `Streams`: 0: only what is
// named.
template <class Cache, u32 Cap = 16, u32 Streams = 4> class prefetcher {
    static_assert(Cap >= 1 && Cap <= WARPBELL_WARP_LANES, "a prefetcher reads 1 to 32 pages ahead");
    static_assert(Streams <= 8, "a prefetcher follows 0 to 8 sequences");
    using backing = typename Cache::backing;

  public:
    static constexpr bool may_store = Cache::may_store, reads = Cache::reads;
    static constexpr bool reads_words = false; // each access is looked at for its pattern

    // `group` makes each call, too.
    template <class Group> WARPBELL_D prefetcher(const Group& group, Cache& cache);
    prefetcher(const prefetcher&) = delete;
    prefetcher& operator=(const prefetcher&) = delete;

    // Reads of pages [first, first + count) are on their way, so far as they can be; of how many.
    template <class Group> WARPBELL_D u32 prefetch(const Group& group, u64 first, u32 count);
    // Takes up what has come: for a warp that computes for long while others may wait for pages that it
    // reads.
    template <class Group> WARPBELL_D void collect(const Group& group);
    // Waits for what is on its way, and adds to the counts. Last call, before the cache's.
    template <class Group> WARPBELL_D void detach(const Group& group);

    // ---- as the cache's

    WARPBELL_D u64 pages() const { return cache_.pages(); }
    WARPBELL_D u32 page_bytes() const { return cache_.page_bytes(); }
    WARPBELL_D u32 lines() const { return cache_.lines(); }
    template <class Group>
    WARPBELL_D page_guard<prefetcher, group_type<Group>> acquire(const Group& group, u64 page,
                                                                 u64 timeout_ns = 0) {
        return page_guard<prefetcher, group_type<Group>>(group_of(group), *this, page, timeout_ns);
    }
    template <class Group, class Use>
    WARPBELL_D status use_each(const Group& group, optional<u64> page, bool stores, Use use,
                               u64 timeout_ns = 0);
    template <class Group> WARPBELL_D status flush(const Group& group, u64 timeout_ns = 0) {
        collect(group);
        return cache_.flush(group, timeout_ns);
    }
    WARPBELL_D void note(status why, u64 page) const { cache_.note(why, page); }

    // ---- for arrays and guards

    template <class Group, class Stores, class Use, class... Held>
    WARPBELL_D status use_each_holding(const Group& group, optional<u64> page, Stores stores, Use& use,
                                       u64 timeout_ns, detail::nothing_else& meanwhile, Held&... held);
    template <class T> WARPBELL_D T* memory(u32 line) const { return cache_.template memory<T>(line); }
    template <class Group> WARPBELL_D status hold(const Group& group, u64 page, u32& line, u64 timeout_ns);
    WARPBELL_D void drop(bool has, u32 line, bool stored) const { cache_.drop(has, line, stored); }
    WARPBELL_D u64 usable_pages() const { return cache_.usable_pages(); }
    WARPBELL_D status outside() const { return cache_.outside(); }

  private:
    // Of the pages that began no sequence, as many are remembered.
    static constexpr u32 memory_of = 8;
    static constexpr u32 most_credit = 8, patience = 4;
    static constexpr u64 eager_ns = 1000000; // longer than a read takes
    static constexpr u32 no_stream = ~0u;

    // A page that this lane has read ahead and the group has not used.
    struct slot {
        u64 page;
        u32 line, generation;
        u32 stream; // the lane that has it
        u32 born;   // tick
        u32 sent;   // time
    };
    // A sequence that this lane follows.
    struct stream {
        u64 last = 0, stride = 0; // 0: none
        u32 window = 0;           // how many pages are read ahead,
        u32 ahead = 0;            // and how many were, from the last on
        u32 run = 0;              // pages that came as expected, since it was last mistaken
        u32 seen = 0;
    };

    WARPBELL_D static bool in(u32 mask) { return (mask >> port::lane() & 1u) != 0; }
    template <class Group> WARPBELL_D void settle(const Group& group, bool done, status said);
    template <class Group> WARPBELL_D void blame(const Group& group, u32 which);
    template <class Group> WARPBELL_D void close(const Group& group, u32 which, bool used);
    template <class Group> WARPBELL_D void meet(const Group& group, u32 wanted);
    template <class Group> WARPBELL_D u32 slots_of(const Group& group, optional<u64> page) const;
    WARPBELL_D bool claim(u64 page, bool& crowded);
    WARPBELL_D void skip(u32 which, u32 which_stream);
    template <class Group> WARPBELL_D u32 start(const Group& group, optional<u64> page, u32 which_stream);
    template <class Group> WARPBELL_D void go_on(const Group& group, u32 which);
    template <class Group> WARPBELL_D void expire(const Group& group);
    template <class Group> WARPBELL_D void close_gone(const Group& group);
    template <class Group> WARPBELL_D u64 stride_to(const Group& group, u64 page);
    template <class Group> WARPBELL_D void begin(const Group& group, u64 page, u64 stride);
    template <class Group> WARPBELL_D void observe(const Group& group, u64 page);
    template <class Group> WARPBELL_D void observe_each(const Group& group, optional<u64> page);

    Cache& cache_;
    // Of this lane.
    slot slot_ = {};
    typename backing::token_type token_;
    stream stream_;
    u64 past_ = 0;
    u32 noted_at_ = 0; // 0: no page was noted
    // Alike in all lanes; masks are of lanes.
    u32 slots_;      // that may have one,
    u32 held_ = 0;   // that have a page in it,
    u32 flying_ = 0; // and that have one which is on its way
    u32 followers_, rememberers_;
    u32 noted_ = 0, tick_ = 0, credit_ = most_credit / 2u;
    u64 recent_ = ~0ull;
    u32 prefetched_ = 0, useful_ = 0, skipped_ = 0;
};

} // namespace experimental
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/prefetch.cuh"
