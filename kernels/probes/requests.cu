// Kernels `probe_requests_*`: one call of requests.cuh each, by one warp, of a request of up to four commands
// of each lane.
#include "probe.cuh"

namespace probes {

struct requests_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    u64 start; // block address
    u32* out;
    u32 blocks; // for each lane
    u32 warp;
};

WARPBELL_D extent of_lane(const requests_args& args) {
    return {lba(args.start + port::lane() * args.blocks), args.blocks};
}

template <sharing Mode> WARPBELL_D void attach(const requests_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

// Begins one, and does not wait.
template <sharing Mode> WARPBELL_D void submit_each(const requests_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_request<4> request;
    const dma_span to(args.buffer);
    store_result(args.out,
                 wb::submit_each(this_warp(), ssd, request, wb::command::read(of_lane(args), to)).bits);
    ssd.detach(this_warp());
}

// One from its beginning to its answer.
template <sharing Mode> WARPBELL_D void wait(const requests_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_request<4> request;
    const dma_span to(args.buffer);
    const status begun = wb::submit_each(this_warp(), ssd, request, wb::command::read(of_lane(args), to));
    store_result(args.out, begun.bits ^ wb::wait(this_warp(), ssd, request).bits ^ request.bytes());
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(requests, attach)
WARPBELL_PROBE(requests, submit_each)
WARPBELL_PROBE(requests, wait)
