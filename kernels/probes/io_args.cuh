// What probes of io.cuh and of deallocate.cuh are launched with: an I/O of a warp, or of each of its lanes.
#pragma once

#include "probe.cuh"

namespace probes {

struct io_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    u64 start; // block address
    u64 token; // bits of one in flight
    u32* out;
    u32 blocks;
    u32 warp;
};

// The I/O of the whole warp.
WARPBELL_D extent whole(const io_args& args) { return {lba(args.start), args.blocks}; }
WARPBELL_D dma_span data(const io_args& args) { return dma_span(args.buffer); }
// The I/O of this lane.
WARPBELL_D optional<extent> each(const io_args& args) {
    return extent{lba(args.start + port::lane() * args.blocks), args.blocks};
}
WARPBELL_D dma_span data_of_lane(const io_args& args) {
    return dma_span(args.buffer).subspan(static_cast<u64>(port::lane()) << 12, 4096);
}

template <sharing Mode> WARPBELL_D void attach(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

} // namespace probes
