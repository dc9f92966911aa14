// Kernel `prefetch_test`: warps use pages of a cache one after the other, by a prefetcher or without one, and
// look whether each has what lies on the SSD.
#include <warpbell/array.cuh>
#include <warpbell/prefetch.cuh>

using namespace warpbell;
using namespace warpbell::experimental;

struct prefetch_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    warpbell_volume_ref volume; // without members: `ns` and `buffer`
    warpbell_volume_buffer_ref volume_buffer;
    warpbell_cache_ref cache;
    uint64_t notes; // prefetch_note[warps]
    uint64_t steps;
    uint64_t stride;  // in pages
    uint64_t apart;   // pages from a warp's first to the next warp's
    uint32_t order;   // as below
    uint32_t ahead;   // by a prefetcher
    uint32_t sharing; // as WARPBELL_SHARING_
    uint32_t stores;  // to every third page
};

struct prefetch_note {
    uint32_t refused;
    uint32_t wrong;
};

namespace {

constexpr uint32_t drawn = 1, named = 2, looped = 3; // 0: in order

WARPBELL_D uint64_t mixed(uint64_t n) {
    n = (n + 1u) * 0x9e3779b97f4a7c15u;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
    return n ^ n >> 27;
}

WARPBELL_D uint64_t page_of(const prefetch_args& args, uint64_t step) {
    const uint64_t first = args.apart * port::block_index();
    const uint64_t drawn_page = mixed(port::block_index() << 20 ^ step);
    const uint64_t at = args.order == looped ? step % 4u : step;
    return (args.order == drawn ? drawn_page : first + at * args.stride) % args.cache.pages;
}

// Each word of the SSD has its number, mixed, and stores leave it so. By an array and by guards in turn.
template <class Pages> WARPBELL_D void use_page(const prefetch_args& args, Pages& pages, uint64_t step) {
    prefetch_note& note = reinterpret_cast<prefetch_note*>(args.notes)[port::block_index()];
    const uint64_t page = page_of(args, step), words = pages.page_bytes() / 8u;
    const uint64_t index = page * words + port::lane() * (words / 32u);
    uint64_t found = 0;
    status said;
    if (step % 2u == 0) {
        array_view<uint64_t, Pages> array(pages, 0, args.cache.pages * words);
        said = array.try_load(this_warp(), optional<uint64_t>(index), found);
    } else {
        auto guard = pages.acquire(this_warp(), page);
        said = guard.result();
        found = guard ? guard.template data<uint64_t>()[index % words] : 0;
        if (guard && args.stores != 0 && step % 3u == 0) {
            guard.template writable<uint64_t>()[index % words] = mixed(index);
        }
    }
    const uint32_t refused = this_warp().ballot(!said.ok());
    const uint32_t wrong = this_warp().ballot(said.ok() && found != mixed(index));
    if (port::lane() == 0) {
        note.refused += refused != 0 ? 1u : 0u;
        note.wrong += wrong != 0 ? 1u : 0u;
    }
}

template <class Pages> WARPBELL_D void use_all(const prefetch_args& args, Pages& pages) {
    for (uint64_t step = 0; step < args.steps; ++step) {
        use_page(args, pages, step);
    }
}

template <class Source, class Span>
WARPBELL_D void run_over(const prefetch_args& args, Source& ssd, const Span& memory) {
    page_cache<Source> pages(this_warp(), args.cache, ssd, memory);
    if (args.ahead != 0) {
        prefetcher<decltype(pages)> ahead(this_warp(), pages);
        if (args.order == named) {
            (void)ahead.prefetch(this_warp(), page_of(args, 0), static_cast<uint32_t>(args.steps));
        }
        use_all(args, ahead);
        ahead.detach(this_warp());
    } else {
        use_all(args, pages);
    }
    pages.detach(this_warp());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void run(const prefetch_args& args) {
    if (args.volume.member_count != 0) {
        const warpbell_volume_buffer_ref buffer = args.volume_buffer;
        volume<Mode, 4> ssds(this_warp(), args.volume, port::block_index());
        return run_over(args, ssds, volume_span(buffer));
    }
    const warpbell_buffer_ref buffer = args.buffer;
    session<Mode> ssd(this_warp(), args.ns, port::block_index());
    run_over(args, ssd, dma_span(buffer));
}

} // namespace

WARPBELL_KERNEL(prefetch_test, prefetch_args) {
    args.sharing == WARPBELL_SHARING_SHARED ? run<sharing::shared>(args) : run<sharing::exclusive>(args);
}
