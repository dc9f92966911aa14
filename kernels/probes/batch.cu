// Kernels `probe_batch_*`: one batch of batch.cuh, of a request of each thread, by a warp and by a block.
#include "probe.cuh"

namespace probes {

constexpr u32 batch_slots = 128;

struct batch_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    u64 start; // block address
    u32* out;
    u32 blocks; // for each thread
    u32 warp;
};

template <sharing Mode> WARPBELL_D void attach(const batch_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

template <sharing Mode, class Group> WARPBELL_D void whole(const batch_args& args, const Group& group) {
    __shared__ typename io_batch<batch_slots>::storage shared;
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_batch<batch_slots> batch(group, shared);
    const u32 slot = port::thread_index();
    const extent where{lba(args.start + slot * args.blocks), args.blocks};
    const status refused = batch.read(slot, where, dma_span(args.buffer));
    batch.submit(group, ssd);
    const status all = batch.wait(group, ssd);
    store_result(args.out, refused.bits ^ all.bits ^ batch[slot].bytes);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void read_warp(const batch_args& args) { whole<Mode>(args, this_warp()); }
template <sharing Mode> WARPBELL_D void read_block(const batch_args& args) {
    whole<Mode>(args, this_block());
}

} // namespace probes

WARPBELL_PROBE(batch, attach)
WARPBELL_PROBE(batch, read_warp)
WARPBELL_PROBE(batch, read_block)
