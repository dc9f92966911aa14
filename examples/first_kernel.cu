// One warp: lane i reads block i of the SSD and adds up its words. 32 sums go into the second buffer.
#include <warpbell/warpbell.cuh>
using namespace warpbell;
struct sum_args { warpbell_namespace_ref ns; warpbell_buffer_ref data, sums; };

WARPBELL_KERNEL(sum_blocks, sum_args) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
    const dma_span mine = dma_span(args.data).subspan(port::lane() * ssd.block_bytes(), ssd.block_bytes());
    const status s = read_each(this_warp(), ssd, extent{lba(port::lane()), 1}, mine);
    uint64_t sum = 0;
    for (uint32_t i = 0; s.ok() && i < ssd.block_bytes() / 8; ++i) { sum += mine.data<uint64_t>()[i]; }
    dma_span(args.sums).data<uint64_t>()[port::lane()] = s.ok() ? sum : s.bits;
    ssd.detach(this_warp());
}
