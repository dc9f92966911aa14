// Kernels `probe_agent_*`: an agent's whole work (agent.cuh), by one warp.
#include "probe.cuh"

#include <warpbell/agent.cuh>

namespace probes {
using namespace warpbell::experimental;

struct agent_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    request_queue<2>* request_queues;
    u32* out;
    u32 count;
    u32 warp;
};

template <sharing Mode> WARPBELL_D void attach(const agent_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void run(const agent_args& args) {
    const warpbell_buffer_ref buffer = args.buffer;
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    agent<Mode, 2> serve(ssd, buffer, {args.request_queues, args.count, args.warp, 1});
    const agent_report did = serve.run();
    store_result(args.out, did.requests ^ did.refused);
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(agent, attach)
WARPBELL_PROBE(agent, run)
