// Kernel `batch_test`: the calls of queue.cuh that `queue_test` does not make. In each of `commands` rounds
// the lanes below `batch` issue one flush each, by the call that `mode` names, and note the answer.
#include "src/abi_check.h"
#include "src/common.cuh"

namespace kernels {

constexpr u32 mode_whole = 0;      // submit_whole, wait
constexpr u32 mode_try = 1;        // try_submit, wait
constexpr u32 mode_abandon = 2;    // submit, abandon
constexpr u32 mode_reap = 3;       // reap, submit, wait
constexpr u32 mode_split = 4;      // read of two commands per lane, for the whole warp
constexpr u32 mode_split_each = 5; // the same, each lane its own
// 6: submit, wait

template <sharing Mode> WARPBELL_D void run_batches(const warpbell_queue_test_args& args) {
    const this_warp_t warp;
    session<Mode> s(warp, args.ns, warp_number());
    warpbell_test_record* records = reinterpret_cast<warpbell_test_record*>(args.records);
    sqe entry = {};
    entry.dword[0] = static_cast<u32>(opcode::flush);
    entry.dword[1] = args.ns.nsid;
    const bool want = port::lane() < args.batch;
    if (args.mode == mode_split || args.mode == mode_split_each) {
        const bool each = args.mode == mode_split_each;
        const u32 blocks = each ? 2u : 64u;
        const u64 bytes = static_cast<u64>(blocks) * s.block_bytes();
        const u32 first = each ? 2u * port::lane() : 0u;
        const dma_span data = dma_span(args.buffer).subspan(first * s.block_bytes(), bytes);
        const status answer = each ? read_each(warp, s, extent{lba(first), blocks}, data, args.timeout_ns)
                                   : read(warp, s, extent{lba(0), blocks}, data, args.timeout_ns);
        warpbell_test_record& record = records[port::lane()];
        ++record.answers;
        record.status = answer.bits;
        s.detach(warp);
        return;
    }
    for (u32 round = 0; round < args.commands; ++round) {
        io_token token;
        if (args.mode == mode_reap) {
            (void)s.queue().reap(warp);
        }
        switch (args.mode) {
        case mode_whole:
            token = s.queue().submit_whole(warp, want, entry, args.submit_timeout_ns);
            break;
        case mode_try:
            token = s.queue().try_submit(warp, want, entry);
            break;
        default:
            token = s.queue().submit(warp, want, entry, args.submit_timeout_ns);
            break;
        }
        warpbell_test_record& record = records[(warp_number() * 32u + port::lane()) * args.commands + round];
        record.cid = token.in_flight() ? token.cid() : ~0u;
        const status answer = args.mode == mode_abandon ? s.queue().abandon(move(token))
                                                        : s.queue().wait(warp, move(token), args.timeout_ns);
        if (want) {
            ++record.answers;
            record.status = answer.bits;
        }
    }
    s.detach(warp);
}

} // namespace kernels

WARPBELL_KERNEL(batch_test, warpbell_queue_test_args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::run_batches<wb::sharing::exclusive>(args);
    } else {
        kernels::run_batches<wb::sharing::shared>(args);
    }
}
