// Kernels `probe_ordered_*`: one request of each lane through each class of ordered.cuh, by one warp, posted
// and taken.
#include "probe.cuh"

namespace probes {
using namespace warpbell::experimental;

struct ordered_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    u64 start; // block address
    u32* out;
    u32 blocks; // for each lane
    u32 warp;
};

template <sharing Mode> WARPBELL_D void attach(const ordered_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

template <ordering Order, sharing Mode> WARPBELL_D void post_and_take(const ordered_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_order<Order, 4> order;
    const extent where{lba(args.start + port::lane() * args.blocks), args.blocks};
    const status posted = wb::submit_each(this_warp(), ssd, order,
                                          wb::command::write(optional<extent>(where), dma_span(args.buffer)));
    const ordered_answer answer = wb::take(this_warp(), ssd, order);
    store_result(args.out, posted.bits ^ answer.result.bits ^ answer.bytes);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void completion(const ordered_args& args) {
    post_and_take<ordering::completion, Mode>(args);
}
template <sharing Mode> WARPBELL_D void delivery(const ordered_args& args) {
    post_and_take<ordering::delivery, Mode>(args);
}

} // namespace probes

WARPBELL_PROBE(ordered, attach)
WARPBELL_PROBE(ordered, completion)
WARPBELL_PROBE(ordered, delivery)
