// Cooperative groups in the calls of each layer that takes them; with REFUSED_BLOCK or REFUSED_LARGE_TILE, in
// one that does not.
#include <cooperative_groups.h>

#include <warpbell/array.cuh>
#include <warpbell/prefetch.cuh>
#include <warpbell/stream.cuh>
#include <warpbell/warpbell.cuh>

namespace cg = cooperative_groups;

struct group_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    warpbell_cache_ref cache;
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref spread;
    wb::experimental::request_queue<2>* requests;
    unsigned* out;
};

template <class Group>
__device__ unsigned commands(const group_args& args, const Group& group,
                             wb::session<wb::sharing::shared>& ssd) {
    const wb::dma_span data(args.buffer);
    const wb::command read = wb::command::read({wb::lba{0}, 8}, data);
    wb::status said = wb::run(group, ssd, read);
    said = wb::wait(group, ssd, wb::submit(group, ssd, read));
    wb::io_token token = wb::submit_each(group, ssd, read);
    (void)wb::try_wait(group, ssd, token);
    said = wb::cancel_each(group, ssd, wb::move(token));
    said = wb::run_coalesced(group, ssd, read);
    said = wb::deallocate(group, ssd, wb::extent{wb::lba{0}, 1}, data);
    wb::io_request<2> request;
    said = wb::submit(group, ssd, request, read);
    said = wb::wait(group, ssd, request);
    wb::experimental::io_order<wb::experimental::ordering::completion, 4> order;
    said = wb::submit(group, ssd, order, wb::command::flush());
    return said.bits ^ wb::take(group, ssd, order).result.bits;
}

template <class Group>
__device__ unsigned pages(const group_args& args, const Group& group, wb::session<wb::sharing::shared>& ssd) {
    wb::page_cache<wb::session<wb::sharing::shared>> cache(group, args.cache, ssd, wb::dma_span(args.buffer));
    wb::experimental::prefetcher<decltype(cache)> ahead(group, cache);
    wb::array_view<unsigned, decltype(ahead)> words(ahead, 0, 1000);
    unsigned value = 0;
    wb::status said = words.try_load(group, threadIdx.x, value);
    said = words.acquire(group, 3).result();
    (void)ahead.prefetch(group, 3, 2);
    said = ahead.acquire(group, 3).result();
    said = ahead.flush(group);
    ahead.detach(group);
    cache.detach(group);
    return value ^ said.bits;
}

template <class Group> __device__ unsigned others(const group_args& args, const Group& group) {
    wb::volume<wb::sharing::shared, 2> volume(group, args.volume, 0);
    wb::status said = wb::read(group, volume, {wb::lba{0}, 1}, wb::volume_span(args.spread));
    volume.detach(group);
    wb::experimental::mail_client<2> io(*args.requests, args.buffer);
    said = wb::read_each(group, io, wb::extent{wb::lba{0}, 1}, wb::dma_span(args.buffer));
    io.leave(group);
    return said.bits;
}

// By a block, and by a warp.
template <class Group>
__device__ unsigned together(const group_args& args, const Group& group,
                             wb::session<wb::sharing::shared>& ssd, void* shared) {
    wb::io_batch<64>::storage& slots = *static_cast<wb::io_batch<64>::storage*>(shared);
    wb::io_batch<64> batch(group, slots);
    wb::status said = batch.read(threadIdx.x % 64, {wb::lba{0}, 1}, wb::dma_span(args.buffer));
    batch.submit(group, ssd);
    said = batch.wait(group, ssd);
    batch.submit(group);
    said = batch.wait(group);
    using stream_type = wb::tile_stream<wb::session<wb::sharing::shared>, 2, 2, wb::ruled_tiles>;
    const auto order = wb::ruled_tiles::sequential(0, 8, 16, 512);
    stream_type tiles(group, order, ssd, wb::dma_span(args.buffer), shared);
    said = tiles.for_each(group, [](const wb::stream_tile&) {});
    (void)tiles.producer_acquire(group);
    (void)tiles.producer_commit(group);
    (void)tiles.consumer_wait(group);
    (void)tiles.consumer_release(group);
    return said.bits ^ tiles.detach(group).bits;
}

__global__ void groups(const __grid_constant__ group_args args) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    wb::session<wb::sharing::shared> ssd(warp, args.ns, 0);
    unsigned found = commands(args, warp, ssd) ^ pages(args, warp, ssd) ^ others(args, warp);
    found ^= commands(args, cg::tiled_partition<8>(warp), ssd);
    if (threadIdx.x % 2 == 0) {
        found ^= commands(args, cg::coalesced_threads(), ssd);
    }
#ifdef REFUSED_BLOCK
    found ^= wb::flush(cg::this_thread_block(), ssd).bits;
#endif
    extern __shared__ __align__(128) unsigned char shared[];
    found ^= together(args, warp, ssd, shared) ^ together(args, cg::this_thread_block(), ssd, shared);
#ifdef REFUSED_LARGE_TILE
    const auto& tile = *static_cast<cg::thread_block_tile<64>*>(static_cast<void*>(shared));
    found ^= together(args, tile, ssd, shared);
#endif
    args.out[threadIdx.x] = found;
    ssd.detach(warp);
}
