// Kernels `probe_cache_*`: one call of cache.cuh or array.cuh each, by one warp, over a session. A mode is a
// kind of cache, with the policy clock_sweep; what depends on the policy is in lines.cu.
#include "probe.cuh"

#include <warpbell/array.cuh>

namespace probes {

struct cache_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    warpbell_cache_ref cache;
    u64 first_byte, count; // of the array
    u64 index;             // of an element, or a page
    u32* out;
    u32 warp;
};

// Attaches, has `use` use the cache, and detaches.
template <page_access Access, class Use> WARPBELL_D void with_cache(const cache_args& args, Use use) {
    using source = session<sharing::shared>;
    const warpbell_buffer_ref buffer = args.buffer;
    source ssd(this_warp(), args.ns, args.warp);
    page_cache<source, Access> pages(this_warp(), args.cache, ssd, dma_span(buffer));
    store_result(args.out, use(pages));
    pages.detach(this_warp());
    ssd.detach(this_warp());
}

template <page_access Access, class Use> WARPBELL_D void with_array(const cache_args& args, Use use) {
    using source = session<sharing::shared>;
    with_cache<Access>(args, [&](page_cache<source, Access>& pages) {
        array_view<u32, page_cache<source, Access>> x(pages, args.first_byte, args.count);
        return use(x);
    });
}

// The element of this lane.
WARPBELL_D u64 of_lane(const cache_args& args) { return args.index + port::lane(); }

template <page_access Access> WARPBELL_D void attach(const cache_args& args) {
    with_cache<Access>(args, [](auto& pages) { return pages.pages(); });
}
template <page_access Access> WARPBELL_D void use_each(const cache_args& args) {
    with_cache<Access>(args, [&](auto& pages) {
        u32 value = 0;
        const auto use = [&](u8* data) { value = *reinterpret_cast<u32*>(data); };
        return pages.use_each(this_warp(), of_lane(args), false, use).bits ^ value;
    });
}
template <page_access Access> WARPBELL_D void acquire(const cache_args& args) {
    with_cache<Access>(args, [&](auto& pages) {
        const auto page = pages.acquire(this_warp(), args.index);
        return page ? page.template data<u32>()[port::lane()] : page.result().bits;
    });
}
template <page_access Access> WARPBELL_D void flush(const cache_args& args) {
    with_cache<Access>(args, [&](auto& pages) { return pages.flush(this_warp()).bits; });
}
template <page_access Access> WARPBELL_D void index(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) { return x[of_lane(args)]; });
}
template <page_access Access> WARPBELL_D void try_load(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) {
        u32 value = 0;
        return x.try_load(this_warp(), of_lane(args), value).bits ^ value;
    });
}
template <page_access Access> WARPBELL_D void store(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) { return x.store(this_warp(), of_lane(args), args.warp).bits; });
}
template <page_access Access> WARPBELL_D void atomic_add(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) { return x.atomic_add(this_warp(), of_lane(args), 1u).bits; });
}
template <page_access Access> WARPBELL_D void element_guard(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) { return x.acquire(this_warp(), args.index).result().bits; });
}
// A guard, and one element through it: what that costs is the difference.
template <page_access Access> WARPBELL_D void guarded_load(const cache_args& args) {
    with_array<Access>(args, [&](auto& x) {
        const auto some = x.acquire(this_warp(), args.index);
        const u64 mine = of_lane(args);
        return some.contains(mine) ? some[mine] : some.result().bits;
    });
}

// For scale: the same element by a plain load.
template <page_access Access> WARPBELL_D void plain_load(const cache_args& args) {
    with_cache<Access>(args, [&](auto& pages) { return pages.template memory<const u32>(0)[of_lane(args)]; });
}

} // namespace probes

#define WARPBELL_CACHE_PROBE(call)                                                                           \
    WARPBELL_PROBE_WITH(cache, call, readwrite, warpbell::page_access::read_write)                           \
    WARPBELL_PROBE_WITH(cache, call, readonly, warpbell::page_access::read_only)
#define WARPBELL_CACHE_STORE_PROBE(call)                                                                     \
    WARPBELL_PROBE_WITH(cache, call, readwrite, warpbell::page_access::read_write)

WARPBELL_CACHE_PROBE(attach)
WARPBELL_CACHE_PROBE(use_each)
WARPBELL_CACHE_PROBE(acquire)
WARPBELL_CACHE_PROBE(index)
WARPBELL_CACHE_PROBE(try_load)
WARPBELL_CACHE_PROBE(element_guard)
WARPBELL_CACHE_PROBE(guarded_load)
WARPBELL_CACHE_STORE_PROBE(plain_load)
WARPBELL_CACHE_STORE_PROBE(store)
WARPBELL_CACHE_STORE_PROBE(atomic_add)
WARPBELL_CACHE_STORE_PROBE(flush)
