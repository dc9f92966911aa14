// Kernels `probe_mail_*`: one call of a compute warp each (agent.cuh), with its request queue in the memory
// of the block or of the device. It has no queue, and so no sharing mode.
#include "probe.cuh"

#include <warpbell/agent.cuh>

namespace probes {
using namespace warpbell::experimental;

struct mail_args {
    warpbell_buffer_ref buffer;
    request_queue<2>* requests;
    u64 start; // block address
    u32* out;
    u32 blocks; // for each lane
};

WARPBELL_D optional<extent> of_lane(const mail_args& args) {
    return extent{lba(args.start + port::lane() * args.blocks), args.blocks};
}

// The request queue where the scope says that it is.
template <class Scope> WARPBELL_D request_queue<2>& requests_of(const mail_args& args) {
    return *args.requests;
}
template <> WARPBELL_D request_queue<2>& requests_of<in_block>(const mail_args&) {
    __shared__ request_queue<2> shared;
    return shared;
}

template <class Scope> WARPBELL_D void attach(const mail_args& args) {
    const warpbell_buffer_ref buffer = args.buffer;
    mail_client<2, Scope> io(requests_of<Scope>(args), buffer);
    store_result(args.out, args.start);
    io.leave(this_warp());
}

template <class Scope> WARPBELL_D void read_each(const mail_args& args) {
    const warpbell_buffer_ref buffer = args.buffer;
    mail_client<2, Scope> io(requests_of<Scope>(args), buffer);
    store_result(args.out, wb::read_each(this_warp(), io, of_lane(args), dma_span(buffer)).bits);
    io.leave(this_warp());
}

// Posts, and does not wait.
template <class Scope> WARPBELL_D void submit_each(const mail_args& args) {
    const warpbell_buffer_ref buffer = args.buffer;
    mail_client<2, Scope> io(requests_of<Scope>(args), buffer);
    store_result(
        args.out,
        wb::submit_each(this_warp(), io, wb::command::read(of_lane(args), dma_span(buffer))).valid());
    io.leave(this_warp());
}

} // namespace probes

#define WARPBELL_MAIL_PROBE(call)                                                                            \
    WARPBELL_PROBE_WITH(mail, call, block, warpbell::experimental::in_block)                                 \
    WARPBELL_PROBE_WITH(mail, call, device, warpbell::experimental::in_device)

WARPBELL_MAIL_PROBE(attach)
WARPBELL_MAIL_PROBE(read_each)
WARPBELL_MAIL_PROBE(submit_each)
