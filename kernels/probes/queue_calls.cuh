// One call of queue.cuh each, by one warp.
#pragma once

#include "probe.cuh"

namespace probes {

struct queue_args {
    warpbell_queue_ref queue;
    u64 iova;
    u64 token; // bits of one in flight
    u32* out;
    u32 nsid;
    u32 blocks; // zero-based
};

template <sharing Mode> WARPBELL_D void attach(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, q.free_ids());
    q.detach(this_warp());
}

WARPBELL_D sqe a_read(const queue_args& args) {
    sqe entry = {};
    entry.dword[0] = static_cast<u32>(opcode::read);
    entry.dword[1] = args.nsid;
    const u64 iova = args.iova + port::lane() * 4096u;
    entry.dword[6] = static_cast<u32>(iova);
    entry.dword[7] = static_cast<u32>(iova >> 32);
    entry.dword[10] = port::lane();
    entry.dword[12] = args.blocks;
    return entry;
}

template <sharing Mode> WARPBELL_D void try_submit(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, q.try_submit(this_warp(), true, a_read(args)).bits());
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, q.submit(this_warp(), true, a_read(args)).bits());
    q.detach(this_warp());
}

// Both in one kernel, from the command to its answer.
template <sharing Mode> WARPBELL_D void command(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    io_token token = q.submit(this_warp(), true, a_read(args));
    store_result(args.out, q.wait(this_warp(), move(token)).bits);
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void try_wait(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    io_token token = io_token::from_bits(args.token);
    const optional<status> done = q.try_wait(this_warp(), token);
    store_result(args.out, done ? done->bits : ~0u);
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void wait(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, q.wait(this_warp(), io_token::from_bits(args.token)).bits);
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void reap(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, static_cast<u32>(q.reap(this_warp())));
    q.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void abandon(const queue_args& args) {
    queue<Mode> q(this_warp(), args.queue, 0);
    store_result(args.out, q.abandon(io_token::from_bits(args.token)).bits);
    q.detach(this_warp());
}

} // namespace probes
