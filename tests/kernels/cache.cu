// Kernel `cache_test`: cached arrays and pages over a session or a volume. All that lanes do is drawn from
// the seed; the host draws the same, and knows what must come of it (tests/src/cached/model.rs).
#include <warpbell/array.cuh>

using namespace warpbell;

struct cache_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref volume_buffer;
    warpbell_cache_ref cache;
    uint64_t records; // lane_note for each lane (words), or each page of a warp and its flush (pages)
    uint64_t seed;
    uint64_t first_byte, words, shared_words; // of the array
    uint64_t page, by_warp, by_step;          // which pages a warp asks for
    uint64_t held_page, timeout_ns;
    uint32_t steps;
    uint32_t over_volume;
    uint32_t kind;  // of cache
    uint32_t flags; // of what warps do
};

struct lane_note {
    uint64_t digest;
    uint32_t failed; // calls
    uint32_t status; // of the last of them
};

namespace {

constexpr uint32_t asks_for_pages = 1, stores = 2, holds_one = 4, flushes = 8, flushes_apart = 16,
                   two_lanes = 32;
enum kinds : uint32_t { clock_kind, read_only_kind, write_once_kind, pinned_kind, lru_kind, retry_kind };

WARPBELL_D uint64_t draw(uint64_t seed, uint64_t who, uint64_t step) {
    uint64_t n = ((seed ^ who << 40 ^ step) + 1u) * 0x9e3779b97f4a7c15u;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
    return n ^ n >> 27;
}
WARPBELL_D uint64_t fold(uint64_t digest, uint64_t value) { return (digest ^ value) * 0x100000001b3u; }
WARPBELL_D uint32_t warp_number() {
    const uint32_t warps = port::block_threads() / WARPBELL_WARP_LANES;
    return port::block_index() * warps + port::thread_index() / WARPBELL_WARP_LANES;
}
WARPBELL_D lane_note& note_at(const cache_args& args, uint64_t at) {
    return reinterpret_cast<lane_note*>(args.records)[at];
}

// Loads, stores, additions, guards and flushes of words that each lane has for itself, and additions to words
// that all share. Words of one lane lie among those of all others.
template <class Cache> class words_of {
  public:
    WARPBELL_D words_of(const cache_args& args, Cache& cache)
        : args_(args), cache_(cache), array_(cache, args.first_byte, args.words),
          aligned_(args.first_byte % 8u == 0) {}

    WARPBELL_D void run() {
        for (uint32_t step = 0; step < args_.steps; ++step) {
            all_ = draw(args_.seed, warp_, step);
            mine_ = draw(args_.seed, 1u << 20 | me_, step);
            switch (all_ & 15u) {
            case 0:
                (all_ >> 4 & 3u) == 0 ? flush() : each_its_own();
                break;
            case 1:
            case 2:
                through_a_guard();
                break;
            case 3:
                into_one_variable(array_[index_of(all_ >> 16)]);
                break;
            default:
                each_its_own();
            }
        }
        flush();
        note_at(args_, me_) = note_;
    }

  private:
    WARPBELL_D void said(status answer) {
        note_.failed += answer.ok() ? 0 : 1u;
        note_.status = answer.ok() ? note_.status : answer.bits;
    }
    // An SSD takes a page while others store to it, which makes it dirty again: no test for sanitizers.
    WARPBELL_D void flush() {
        if ((args_.flags & flushes_apart) == 0) {
            said(cache_.flush(warp));
        }
    }
    WARPBELL_D void saw(uint64_t value) { note_.digest = fold(note_.digest, value); }
    WARPBELL_D uint64_t index_of(uint64_t drawn) const {
        const uint64_t of_lane = (args_.words - args_.shared_words) / lanes_;
        return args_.shared_words + drawn % of_lane * lanes_ + me_;
    }

    WARPBELL_D void each_its_own() {
        const uint32_t what = static_cast<uint32_t>(mine_ >> 8) & (aligned_ ? 3u : 1u);
        const uint64_t own = index_of((all_ >> 16) + (mine_ & 1u));
        const uint64_t index = what == 3u ? (mine_ >> 16) % args_.shared_words : own;
        optional<uint64_t> at[3];
        at[what < 2u ? what : 2u] = index;
        uint64_t value = 0;
        said(array_.try_load(warp, at[0], value));
        if (at[0]) {
            saw(value);
        }
        said(array_.store(warp, at[1], mine_));
        if (aligned_) {
            said(array_.atomic_add(warp, at[2], mine_));
        }
    }

    // One lane loads its word again, into a variable that all lanes name: the others leave that alone.
    WARPBELL_D void into_one_variable(uint64_t word) {
        saw(word);
        uint64_t& one = note_at(args_, warp_ * WARPBELL_WARP_LANES).digest;
        const bool loads = port::lane() == (all_ >> 8 & 31u);
        const optional<uint64_t> at = loads ? optional<uint64_t>(index_of(all_ >> 16)) : nullopt;
        warp.sync();
        said(array_.try_load(warp, at, one));
        warp.sync();
        note_.failed += loads && one != word ? 1u : 0u;
    }

    WARPBELL_D void through_a_guard() {
        const uint64_t own = index_of(all_ >> 16);
        auto some = array_.acquire(warp, own - port::lane());
        said(some.result());
        if (some.contains(own)) {
            saw(some[own]);
            if ((mine_ & 1u) != 0) {
                (void)some.set(own, mine_);
            }
        }
    }

    const this_warp_t warp = {};
    const cache_args& args_;
    Cache& cache_;
    array_view<uint64_t, Cache> array_;
    const bool aligned_;
    const uint64_t warp_ = warp_number(), me_ = warp_ * WARPBELL_WARP_LANES + port::lane();
    const uint64_t lanes_ = static_cast<uint64_t>(port::grid_blocks()) * port::block_threads();
    uint64_t all_ = 0, mine_ = 0;
    lane_note note_ = {};
};

// Page after page, each held while it is looked at, and stored to.
template <class Cache> class pages_of {
  public:
    WARPBELL_D pages_of(const cache_args& args, Cache& cache) : args_(args), cache_(cache) {}

    WARPBELL_D void run() {
        if ((args_.flags & two_lanes) != 0) {
            two_pages();
        } else if ((args_.flags & holds_one) != 0) {
            const auto held = cache_.acquire(warp, args_.held_page);
            all();
        } else {
            all();
        }
        if ((args_.flags & flushes) != 0) {
            const status said = cache_.flush(warp);
            if (warp.is_leader()) {
                note_of(args_.steps).status = said.bits;
            }
        }
    }

  private:
    WARPBELL_D lane_note& note_of(uint32_t step) const {
        return note_at(args_, static_cast<uint64_t>(warp_number()) * (args_.steps + 1u) + step);
    }

    WARPBELL_D void all() {
        for (uint32_t step = 0; step < args_.steps; ++step) {
            const uint64_t page = args_.page + warp_number() * args_.by_warp + step * args_.by_step;
            auto guard = cache_.acquire(warp, page, args_.timeout_ns);
            if (warp.is_leader()) {
                note_of(step).status = guard.result().bits;
                for (uint32_t at = 0; guard && at < cache_.page_bytes() / 8u; ++at) {
                    note_of(step).digest = fold(note_of(step).digest, guard.template data<uint64_t>()[at]);
                }
            }
            warp.sync();
            if (guard && (args_.flags & stores) != 0) {
                store(guard.template writable<uint64_t>(), page, note_of(step));
            }
        }
    }

    // Of one warp: lane 0 wants the page, lane 1 the one behind it. What each is told.
    WARPBELL_D void two_pages() {
        optional<uint64_t> page;
        if (port::lane() < 2u) {
            page = args_.page + port::lane();
        }
        const status said = cache_.use_each(warp, page, false, [](unsigned char*) {}, args_.timeout_ns);
        if (page) {
            note_of(port::lane()).status = said.bits;
        }
    }

    WARPBELL_D void store(uint64_t* words, uint64_t page, lane_note& note) const {
        if (words != nullptr) {
            words[port::lane()] = draw(args_.seed, port::lane(), page);
        } else if (warp.is_leader()) {
            ++note.failed;
        }
    }

    const this_warp_t warp = {};
    const cache_args& args_;
    Cache& cache_;
};

template <page_access Access, class Policy, class Source, class Span>
WARPBELL_D void run(const cache_args& args, Source& source, const Span& memory) {
    page_cache<Source, Access, Policy> cache(this_warp(), args.cache, source, memory);
    if ((args.flags & asks_for_pages) != 0) {
        pages_of<decltype(cache)>(args, cache).run();
    } else if constexpr (Access == page_access::read_write) {
        words_of<decltype(cache)>(args, cache).run();
    }
    cache.detach(this_warp());
    source.detach(this_warp());
}

// Every kind of cache is over a shared queue.
WARPBELL_D void over_shared_queues(const cache_args& args) {
    session<sharing::shared> ssd(this_warp(), args.ns, warp_number());
    const dma_span memory(args.buffer);
    switch (args.kind) {
    case read_only_kind:
        return run<page_access::read_only, clock_sweep>(args, ssd, memory);
    case write_once_kind:
        return run<page_access::write_once, clock_sweep>(args, ssd, memory);
    case pinned_kind:
        return run<page_access::read_write, pinned_set<>>(args, ssd, memory);
    case lru_kind:
        return run<page_access::read_write, sampled_lru<4>>(args, ssd, memory);
    default:
        return run<page_access::read_write, clock_sweep>(args, ssd, memory);
    }
}

#ifndef CACHE_TEST_SHARED_ONLY
WARPBELL_D void with_retries(const cache_args& args) {
    session<sharing::shared, retry> ssd(this_warp(), args.ns, warp_number());
    run<page_access::read_write, clock_sweep>(args, ssd, dma_span(args.buffer));
}

template <sharing Mode> WARPBELL_D void over_volume(const cache_args& args) {
    volume<Mode, 4> ssds(this_warp(), args.volume, warp_number());
    run<page_access::read_write, clock_sweep>(args, ssds, volume_span(args.volume_buffer));
}

WARPBELL_D void over_exclusive_queues(const cache_args& args) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, warp_number());
    run<page_access::read_write, clock_sweep>(args, ssd, dma_span(args.buffer));
}
#endif

} // namespace

WARPBELL_KERNEL(cache_test, cache_args) {
#ifndef CACHE_TEST_SHARED_ONLY
    if (args.over_volume != 0) {
        const auto* first = reinterpret_cast<const warpbell_volume_member*>(args.volume.members);
        return first->ns.sharing == WARPBELL_SHARING_EXCLUSIVE ? over_volume<sharing::exclusive>(args)
                                                               : over_volume<sharing::shared>(args);
    }
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        return over_exclusive_queues(args);
    }
    if (args.kind == retry_kind) {
        return with_retries(args);
    }
#endif
    over_shared_queues(args);
}
