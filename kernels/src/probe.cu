// Kernels `probe_*`: one library call each, for counting instructions, registers and costs. The cost of
// a call is its probe's less that of probe_empty_*, which attaches and stores a result as they all do.
#include <warpbell/warpbell.cuh>

namespace kernels {

using namespace wb;

WARPBELL_D void store_result(const warpbell_probe_args& args, u64 value) {
    reinterpret_cast<u32*>(args.out)[port::lane()] = static_cast<u32>(value) ^ static_cast<u32>(value >> 32);
}

template <sharing Mode> WARPBELL_D void probe_empty(const warpbell_probe_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args, q.free_ids());
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void probe_submit(const warpbell_probe_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    sqe entry = {};
    entry.dword[0] = static_cast<u32>(opcode::read);
    entry.dword[1] = args.nsid;
    const u64 iova = args.iova + port::lane() * 4096u;
    entry.dword[6] = static_cast<u32>(iova);
    entry.dword[7] = static_cast<u32>(iova >> 32);
    entry.dword[10] = port::lane();
    entry.dword[12] = args.blocks;
    const io_token token = q.try_submit(this_warp(), true, entry);
    store_result(args, token.bits());
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void probe_poll(const warpbell_probe_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    io_token token = io_token::from_bits(args.token);
    const optional<status> done = q.try_wait(this_warp(), token);
    store_result(args, done ? done->bits : ~0u);
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void probe_reap(const warpbell_probe_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args, static_cast<u32>(q.reap(this_warp())));
    q.detach(this_warp());
}

} // namespace kernels

#define WARPBELL_PROBE(what, mode)                                                                           \
    WARPBELL_KERNEL(probe_##what##_##mode, warpbell_probe_args) {                                            \
        kernels::probe_##what<warpbell::sharing::mode>(args);                                                \
    }

WARPBELL_PROBE(empty, shared)
WARPBELL_PROBE(submit, shared)
WARPBELL_PROBE(poll, shared)
WARPBELL_PROBE(reap, shared)
WARPBELL_PROBE(empty, exclusive)
WARPBELL_PROBE(submit, exclusive)
WARPBELL_PROBE(poll, exclusive)
WARPBELL_PROBE(reap, exclusive)
