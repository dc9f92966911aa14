// Kernel `recovery_test`: flushes on a queue that the host gives up, which the groups of a warp
// switch_to_successor from by themselves. Each lane notes of each of its `commands` commands the first
// answer, and what the switch said.
#include "src/abi_check.h"
#include "src/common.cuh"

namespace kernels {

constexpr u32 by_warp = 0, by_halves = 1, by_lane = 2; // mode: who calls together
constexpr u32 by_destructor = 1;                       // flags: goes without having detached

template <sharing Mode, class Group>
WARPBELL_D void run_recovery(const warpbell_queue_test_args& args, const Group& group) {
    session<Mode> s(group, args.ns, warp_number());
    warpbell_test_record* records = reinterpret_cast<warpbell_test_record*>(args.records) +
                                    (warp_number() * WARPBELL_WARP_LANES + port::lane()) * args.commands;
    sqe entry = {};
    entry.dword[0] = static_cast<u32>(opcode::flush);
    entry.dword[1] = args.ns.nsid;
    u64 lost = 0;
    for (u32 round = 0; round < args.commands; ++round) {
        warpbell_test_record& record = records[round];
        io_token token = s.queue().submit(group, true, entry, args.timeout_ns);
        record.cid = token.in_flight() ? token.cid() : ~0u;
        const u64 bits = token.bits();
        const status first = s.queue().wait(group, move(token), args.timeout_ns);
        ++record.answers;
        record.status = first.bits;
        // A token of the queue before, while a command of this one may have its id.
        io_token old = io_token::from_bits(lost);
        if (lost != 0 && old.in_flight()) {
            const optional<status> again = s.queue().try_wait(old);
            record.lba = again ? again->bits : ~0u;
        }
        old.reset();
        if (group.ballot(first.is(code::queue_lost)) == 0) {
            continue;
        }
        lost = bits;
        const status back = s.switch_to_successor(group, args.submit_timeout_ns);
        record.payload = 1u << 31 | back.bits;
        if (!back.ok()) {
            break;
        }
    }
    records[args.commands - 1].found = s.queue().ref().epoch;
    if ((args.flags & by_destructor) == 0) {
        s.detach(group);
        s.detach(group);
    }
}

template <sharing Mode> WARPBELL_D void run_groups(const warpbell_queue_test_args& args) {
    if (args.mode == by_warp) {
        run_recovery<Mode>(args, this_warp());
    } else if (args.mode == by_lane) {
        run_recovery<Mode>(args, this_thread());
    } else {
        run_recovery<Mode>(args, lanes(port::lane() < 16 ? 0xffffu : 0xffff0000u));
    }
}

} // namespace kernels

WARPBELL_KERNEL(recovery_test, warpbell_queue_test_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        run_groups<sharing::exclusive>(args);
    } else {
        run_groups<sharing::shared>(args);
    }
}

namespace kernels {

constexpr u32 by_each = 0, by_whole = 1, by_flush = 2; // mode of retry_test: the call

// Blocking calls with a policy, `async_depth` attempts. Of each call: status, attempts, when it returned.
template <sharing Mode> WARPBELL_D void run_retries(const warpbell_queue_test_args& args) {
    const this_warp_t warp;
    session<Mode, retry> s(warp, args.ns, warp_number(), retry(args.async_depth));
    const u32 lane = warp_number() * WARPBELL_WARP_LANES + port::lane();
    warpbell_test_record* records =
        reinterpret_cast<warpbell_test_record*>(args.records) + lane * args.commands;
    const dma_span data = dma_span(args.buffer).subspan(lane * s.block_bytes(), s.block_bytes());
    const u64 start_ns = port::clock_ns();
    for (u32 round = 0; round < args.commands; ++round) {
        status answer;
        if (args.mode == by_each) {
            answer = read_each(warp, s, extent{lba(lane), 1}, data, args.timeout_ns);
        } else if (args.mode == by_whole) {
            answer = read(warp, s, extent{lba(warp_number()), 1}, data, args.timeout_ns);
        } else {
            answer = flush(warp, s, args.timeout_ns);
        }
        ++records[round].answers;
        records[round].status = answer.bits;
        records[round].payload = s.retries().retried;
        records[round].lba = port::clock_ns() - start_ns;
    }
    s.detach(warp);
}

} // namespace kernels

WARPBELL_KERNEL(retry_test, warpbell_queue_test_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        run_retries<sharing::exclusive>(args);
    } else {
        run_retries<sharing::shared>(args);
    }
}

namespace kernels {

// What a kernel with a lease is told, lane by lane: each has its own start, and writes if it is odd.
WARPBELL_D void run_leased(const warpbell_queue_test_args& args) {
    const this_warp_t warp;
    session<sharing::shared> s(warp, args.ns, 0);
    warpbell_test_record& record = reinterpret_cast<warpbell_test_record*>(args.records)[port::lane()];
    const dma_span data = dma_span(args.buffer).subspan(port::lane() * s.block_bytes(), s.block_bytes());
    const extent where = {lba(port::lane() / 2u), 1};
    const bool writes = (port::lane() & 1u) != 0;
    record.status = (writes ? write_each(warp, s, where, data) : read_each(warp, s, where, data)).bits;
    ++record.answers;
    s.detach(warp);
}

} // namespace kernels

WARPBELL_KERNEL(lease_test, warpbell_queue_test_args) { kernels::run_leased(args); }
