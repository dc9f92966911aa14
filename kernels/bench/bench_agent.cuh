// What kernel `bench_agent` does: compute warps keep requests in their request_queues until told to stop,
// agents serve them. Compute warps see no queue: what polls a queue is an agent.
#pragma once

#include "quota.cuh"
#include "workload.cuh"

#include "abi_bench.h"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {
using namespace warpbell::experimental;

constexpr u32 mail_slots = WARPBELL_BENCH_MAIL_SLOTS;
using bench_request_queue = request_queue<mail_slots>;

// ---- compute warps

class mail_bench_warp : workload {
  public:
    // Number `number` of `warps` compute warps.
    WARPBELL_D mail_bench_warp(const warpbell_bench_agent_args& args, bench_request_queue& requests,
                               const quota& mine, const lanes& group, u32 number, u32 warps)
        : workload(args.bench, number, busy_warps(args.bench, warps),
                   static_cast<u64>(number) * WARPBELL_WARP_LANES + port::lane()),
          group_(group), io_(requests, args.bench.buffer), number_(number),
          deepest_((mine.commands + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES),
          slots_((mine.commands - port::lane() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES),
          idle_((1u << slots_) - 1u) {}

    WARPBELL_D void run() {
        start(group_);
        eager pause;
        for (;;) {
            const bool posted = post_some();
            tick(group_, (++ticks_ & 15u) == 0);
            const bool answered = poll();
            const bool waits = group_.ballot((busy_ | begun_) != 0) != 0;
            if (!waits && (ending() || group_.ballot(idle_ != 0) == 0)) {
                break; // all is done, or no buffer is left
            }
            posted || answered ? pause.busy() : pause.idle();
        }
        write_result(group_, args_.results, tally_, io_bytes_, number_ % args_.ns.queue_count, start_ns_);
        io_.leave(group_);
    }

  private:
    struct slot {
        mail_token token;
        io what = {};
        u64 start_ns = 0; // of the I/O,
        u64 since_ns = 0; // and of the request that is in its request queue
        u32 done = 0;     // blocks of the I/O that earlier requests moved
    };

    // The next requests of I/Os that have blocks left, then those of new ones.
    WARPBELL_D bool post_some() {
        bool any = false;
        while (group_.ballot(begun_ != 0) != 0) {
            const bool mine = begun_ != 0;
            const u32 k = mine ? port::lowest(begun_) : 0;
            begun_ &= begun_ - (mine ? 1u : 0u);
            post(mine, k);
            any = true;
        }
        for (u32 able; !ending() && (able = group_.ballot(idle_ != 0)) != 0; any = true) {
            const u32 n = part_of(port::population(able)), rank = rank_in(able);
            const bool mine = idle_ != 0 && rank < n;
            const u32 k = mine ? port::lowest(idle_) : 0;
            if (mine) {
                begin(k, rank);
            }
            post(mine, k);
            pass(n);
        }
        return any;
    }

    WARPBELL_D dma_span data_of(u32 k) const {
        return workload::data_of(number_, k * WARPBELL_WARP_LANES + port::lane());
    }

    // Draws the I/O of slot k.
    WARPBELL_D void begin(u32 k, u32 rank) {
        idle_ &= ~(1u << k);
        slot_[k].what = draw(rank);
        slot_[k].start_ns = now_ns_;
        slot_[k].done = 0;
        fill(slot_[k].what, data_of(k));
    }

    // The blocks of slot k's next request: an agent sends one command for each.
    WARPBELL_D u32 piece_blocks(u32 k) const {
        const u32 rest = args_.blocks_per_io - slot_[k].done;
        return rest < args_.ns.max_blocks ? rest : args_.ns.max_blocks;
    }

    WARPBELL_D void post(bool mine, u32 k) {
        const opcode op = slot_[k].what.writes ? opcode::write : opcode::read;
        const u32 done = mine ? slot_[k].done : 0;
        const extent where = {lba(slot_[k].what.lba + done), mine ? piece_blocks(k) : 1u};
        const u32 shift = args_.ns.block_shift;
        const dma_span data =
            data_of(k).subspan(static_cast<u64>(done) << shift, static_cast<u64>(where.blocks) << shift);
        mail_token token = io_.post(group_, {op, mine ? optional<extent>(where) : nullopt, data, 0});
        if (mine) {
            slot_[k].token = move(token);
            slot_[k].since_ns = now_ns_;
            busy_ |= 1u << k;
        }
    }

    // Takes this lane's answers. An agent answers within twice the deadline of a request; one that does not
    // is given up.
    WARPBELL_D bool poll() {
        bool any = false;
        for (u32 k = 0; k < deepest_; ++k) {
            const u32 bit = 1u << k;
            if ((busy_ & bit) == 0) {
                continue;
            }
            optional<status> said = io_.try_wait(group_, slot_[k].token);
            if (!said && args_.timeout_ns != 0 && now_ns_ - slot_[k].since_ns > patience_ns()) {
                said = io_.wait(group_, move(slot_[k].token), 1);
            }
            if (said) {
                any = true;
                busy_ &= ~bit;
                finish(k, *said);
            }
        }
        return group_.ballot(any) != 0;
    }
    WARPBELL_D u64 patience_ns() const {
        constexpr u64 margin_ns = 10ull * 1000 * 1000 * 1000;
        return args_.timeout_ns * 2u + margin_ns;
    }

    WARPBELL_D void finish(u32 k, status said) {
        const u32 bit = 1u << k;
        if (!said.ok()) {
            count(said);
            fail(slot_[k].what.lba, said);
            // A buffer that the controller may still use stays out of use: nobody tells when it is free.
            idle_ |= said.buffer_in_use() ? 0u : bit;
            return;
        }
        slot_[k].done += piece_blocks(k);
        if (slot_[k].done < args_.blocks_per_io) {
            begun_ |= bit;
            return;
        }
        idle_ |= bit;
        succeed(slot_[k].what, slot_[k].start_ns, data_of(k));
    }

    const lanes& group_;
    mail_client<mail_slots> io_;
    const u32 number_, deepest_, slots_;
    u32 idle_;      // bit k: slot k may be used
    u32 busy_ = 0;  // bit k: its request is in the queue
    u32 begun_ = 0; // bit k: its I/O has blocks left that no request was posted for
    u32 ticks_ = 0;
    slot slot_[mail_slots];
};

WARPBELL_D void run_compute(const warpbell_bench_agent_args& args, u32 number, u32 warps) {
    bench_request_queue& requests = reinterpret_cast<bench_request_queue*>(args.request_queues)[number];
    const quota mine(args.bench.iodepth, args.bench.ns.queue_count, number, warps);
    if (mine.commands == 0) {
        mail_client<mail_slots>(requests, args.bench.buffer).leave(this_warp());
        return;
    }
    if (port::lane() < mine.lanes()) {
        const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - mine.lanes()));
        mail_bench_warp(args, requests, mine, group, number, warps).run();
        const u64 own = port::polls_of_lane();
        const u64 polls = group.ballot(own == ~0ull) != 0 ? ~0ull : sum(group, own);
        if (group.is_leader()) {
            reinterpret_cast<u64*>(args.polls)[number] = polls;
        }
    }
}

// ---- agents

template <sharing Mode> WARPBELL_D void run_agent(const warpbell_bench_agent_args& args, u32 compute) {
    const u32 number = warp_number();
    const this_warp_t warp;
    session<Mode> ssd(warp, args.bench.ns, number);
    auto* request_queues = reinterpret_cast<bench_request_queue*>(args.request_queues);
    agent<Mode, mail_slots> serves(ssd, args.bench.buffer, {request_queues, compute, number, args.agents});
    // No stop word: compute warps see it, and leave when they have their answers.
    const agent_report did = serves.run(nullptr, args.bench.timeout_ns);
    warpbell_agent_counts counts = {};
    counts.requests = sum(warp, did.requests);
    counts.batches = did.batches; // alike in all lanes
    counts.refused = sum(warp, did.refused);
    if (warp.is_leader()) {
        reinterpret_cast<warpbell_agent_counts*>(args.counts)[number] = counts;
    }
    ssd.detach(warp);
}

WARPBELL_D void run_bench_agent(const warpbell_bench_agent_args& args) {
    const u32 compute = warps_of_launch() - args.agents;
    if (warp_number() >= args.agents) {
        run_compute(args, warp_number() - args.agents, compute);
    } else if (args.bench.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        run_agent<sharing::exclusive>(args, compute);
    } else {
        run_agent<sharing::shared>(args, compute);
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
