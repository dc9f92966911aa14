// Kernels `probe_stream_*`: a schedule's tiles, streamed by a warp and by a block (stream.cuh), each thread
// of which reads a word of each.
#include "probe.cuh"

#include <warpbell/stream.cuh>

namespace probes {

struct stream_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref ring;
    warpbell_schedule_ref schedule;
    u64 start; // block address
    u32* out;
    u32 blocks; // of a tile
    u32 warp;
};

template <sharing Mode> WARPBELL_D void attach(const stream_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

template <sharing Mode, class Schedule, class Group>
WARPBELL_D void all_tiles(const stream_args& args, const Schedule& schedule, const Group& group) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    tile_stream<session<Mode>, 3, 2, Schedule> tiles(group, schedule, ssd, dma_span(args.ring),
                                                     port::block_memory());
    u32 sum = 0;
    const status all = tiles.for_each(
        group, [&](const stream_tile& tile) { sum += tile ? tile.data<u32>()[port::thread_index()] : 0; });
    store_result(args.out, all.bits ^ sum);
    (void)tiles.detach(group); // nothing is left
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void listed_warp(const stream_args& args) {
    all_tiles<Mode>(args, listed_tiles(args.schedule), this_warp());
}
template <sharing Mode> WARPBELL_D void listed_block(const stream_args& args) {
    all_tiles<Mode>(args, listed_tiles(args.schedule), this_block());
}
template <sharing Mode> WARPBELL_D void ruled_block(const stream_args& args) {
    all_tiles<Mode>(args, ruled_tiles::sequential(args.start, args.blocks, args.schedule.step_count, 4096),
                    this_block());
}

} // namespace probes

WARPBELL_PROBE(stream, attach)
WARPBELL_PROBE(stream, listed_warp)
WARPBELL_PROBE(stream, listed_block)
WARPBELL_PROBE(stream, ruled_block)
