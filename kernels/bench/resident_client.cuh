// Clients of the GPU-resident controller: warps that use the device library as any kernel does.
#pragma once

#include "histogram.cuh"
#include "resident_check.cuh"

namespace kernels {

// Where a client warp stands among the clients.
struct client_place {
    u32 number;   // of this warp, over all client blocks
    u32 commands; // of its queue's iodepth: the first warps take the remainder

    WARPBELL_D client_place(const warpbell_resident_args& args, u32 warp) : number(warp) {
        const u32 q = args.ns.queue_count, slot = warp / q;
        const u32 here = args.clients / q + (warp % q < args.clients % q ? 1u : 0u);
        commands = args.iodepth / here + (slot < args.iodepth % here ? 1u : 0u);
    }
    WARPBELL_D u32 lanes() const { return commands < WARPBELL_WARP_LANES ? commands : WARPBELL_WARP_LANES; }
};

// What all clients do alike: draw commands, note answers, know when to end.
class client {
  public:
    WARPBELL_D client(const warpbell_resident_args& args, const client_place& place)
        : args_(args), number_(place.number), busy_warps_(busy_warps(args)),
          units_(args.ns.blocks / args.blocks_per_io),
          unit_(static_cast<u64>(place.number) * WARPBELL_WARP_LANES + port::lane()) {
        wrap();
        start_ns_ = port::clock_ns();
    }

    // This warp's part of the launch's commands.
    WARPBELL_D u64 limit() const {
        if (args_.io_limit == 0) {
            return ~0ull;
        }
        return args_.io_limit / busy_warps_ + (number_ < args_.io_limit % busy_warps_ ? 1u : 0u);
    }
    // The next command's blocks: no other command has them, unless the namespace is too small.
    WARPBELL_D extent draw() {
        const extent where = {lba(unit_ * args_.blocks_per_io), args_.blocks_per_io};
        unit_ += static_cast<u64>(args_.clients) * WARPBELL_WARP_LANES;
        wrap();
        return where;
    }
    // Data addresses of this lane's slot k. Nobody reads or writes there.
    WARPBELL_D dma_span data(u32 k) const {
        const u64 bytes = static_cast<u64>(args_.blocks_per_io) << args_.ns.block_shift;
        const u64 lane = static_cast<u64>(number_) * WARPBELL_WARP_LANES + port::lane();
        return dma_span(args_.buffer).subspan((lane * WARPBELL_RESIDENT_SLOTS + k) * bytes, bytes);
    }
    WARPBELL_D void submitted(const io_token& token, extent where) {
        if (args_.flags & WARPBELL_RESIDENT_DIGEST && token.in_flight()) {
            digest_ += command_digest(where.start.value, token.cid());
        }
    }
    // The status that the controller gives to a command at `where`.
    WARPBELL_D u32 expected(extent where) const {
        return args_.flags & WARPBELL_RESIDENT_ECHO
                   ? WARPBELL_RESIDENT_ECHO_STATUS | (static_cast<u32>(where.start.value) & 0xffu)
                   : 0;
    }
    WARPBELL_D void answered(status s, u32 expected) {
        if (s.bits == expected) {
            ++answers_;
        } else if (s.from_library() || expected == 0) {
            failed(s);
        } else {
            ++mismatches_;
        }
    }
    WARPBELL_D bool time_is_up(u64 now) const {
        return (args_.runtime_ns != 0 && now - start_ns_ >= args_.runtime_ns) || stop_asked(args_.mailbox);
    }
    WARPBELL_D void record(u64 ns) const {
        const u64 row = static_cast<u64>(number_) * WARPBELL_WARP_LANES + port::lane();
        ++reinterpret_cast<u32*>(args_.histograms)[row * WARPBELL_HISTOGRAM_BUCKETS + bucket_of(ns)];
    }
    WARPBELL_D const warpbell_resident_args& args() const { return args_; }
    WARPBELL_D u32 number() const { return number_; }

    // Adds the lanes of the group up, and leaves the launch.
    template <class Group> WARPBELL_D void finish(const Group& group) const {
        const u32 wrong = group.ballot(errors_ != 0);
        warpbell_warp_result r = {};
        r.abi_version = WARPBELL_BENCH_ABI_VERSION;
        r.size = sizeof(r);
        r.reads = sum(group, answers_);
        r.errors = sum(group, errors_);
        r.error_status = static_cast<u32>(group.from(wrong ? port::lowest(wrong) : group.leader(), error_));
        r.mismatches = sum(group, mismatches_);
        r.queue = number_ % args_.ns.queue_count;
        r.start_ns = start_ns_;
        r.end_ns = port::clock_ns();
        const u64 digest = sum(group, digest_);
        if (group.is_leader()) {
            reinterpret_cast<warpbell_warp_result*>(args_.results)[number_] = r;
            reinterpret_cast<u64*>(args_.digests)[number_] = digest;
        }
    }

  private:
    // Of the warps on a queue only the first iodepth have commands.
    WARPBELL_D static u32 busy_warps(const warpbell_resident_args& args) {
        const u64 most = static_cast<u64>(args.iodepth) * args.ns.queue_count;
        return args.clients < most ? args.clients : static_cast<u32>(most);
    }
    WARPBELL_D void wrap() {
        while (unit_ >= units_) {
            unit_ -= units_;
        }
    }
    WARPBELL_D void failed(status s) {
        if (errors_++ == 0) {
            error_ = s.bits;
            report_error(args_.mailbox, 0, s);
        }
    }

    const warpbell_resident_args& args_;
    const u32 number_, busy_warps_;
    const u64 units_;
    u64 unit_, start_ns_, answers_ = 0, errors_ = 0, mismatches_ = 0, digest_ = 0;
    u32 error_ = 0;
};

// Adds one to the count that the controller waits for. By one lane, after all of its warp's work.
WARPBELL_D void leave(const warpbell_resident_args& args) {
    port::fence_gpu(); // the warp's last doorbells before the count
    port::add_relaxed_gpu(reinterpret_cast<u32*>(args.ended), 1);
}

// ---- throughput: a warp keeps its quota of iodepth outstanding

// Tokens stay in registers: every index is a constant.
template <sharing Mode> class throughput_client {
  public:
    WARPBELL_D throughput_client(const warpbell_resident_args& args, const client_place& place,
                                 const lanes& group)
        : client_(args, place), group_(group), session_(group, args.ns, place.number),
          batch_(args.batch < place.lanes() ? args.batch : place.lanes()), idle_(slots_of(place.commands)),
          limit_(client_.limit()) {}

    WARPBELL_D void run() {
        backoff patience(client_.args().timeout_ns);
        for (;;) {
            while (submit_some()) {
            }
            const progress_result did = session_.queue().progress(group_, patience);
            const bool gave_up = did == progress_result::expired || did == progress_result::lost;
            // Of a shared queue other warps collect too.
            if (Mode == sharing::shared || did != progress_result::idle) {
                const bool news = group_.ballot(harvest(gave_up)) != 0;
                if (news || did != progress_result::idle) {
                    patience = backoff(client_.args().timeout_ns);
                }
            }
            if ((++turns_ & 15u) == 0) {
                const bool stop = group_.is_leader() && client_.time_is_up(port::clock_ns());
                stopping_ = stopping_ || group_.ballot(stop) != 0;
            }
            stopping_ = stopping_ || did == progress_result::lost || issued_ >= limit_;
            if (stopping_ && group_.ballot(busy_ != 0) == 0) {
                break;
            }
        }
        session_.detach(group_);
        client_.finish(group_);
    }

  private:
    static constexpr u32 slots = WARPBELL_RESIDENT_SLOTS;

    // This lane's slots: command i of the warp is number i / 32 of lane i mod 32.
    WARPBELL_D static u32 slots_of(u32 commands) {
        const u32 own = (commands - port::lane() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES;
        return own < slots ? (1u << own) - 1u : (1u << slots) - 1u;
    }

    WARPBELL_D bool submit_some() {
        if (stopping_ || issued_ >= limit_) {
            return false;
        }
        const u32 able = group_.ballot(idle_ != 0);
        const u64 rest = limit_ - issued_;
        const u32 most = rest < batch_ ? static_cast<u32>(rest) : batch_;
        u32 n = port::population(able);
        if (n < most && group_.ballot(busy_ != 0) != 0) {
            return false; // answers bring the rest
        }
        n = n < most ? n : most;
        if (n == 0) {
            stopping_ = true; // every slot's command timed out
            return false;
        }
        submit(idle_ != 0 && rank_in(able) < n);
        issued_ += n;
        return true;
    }

    WARPBELL_D void submit(bool want) {
        const u32 k = want ? port::lowest(idle_) : 0;
        const extent where = want ? client_.draw() : extent{lba(0), 1};
        const dma_span data = client_.data(k);
        const bool checks = (client_.args().flags & WARPBELL_RESIDENT_CHECKED) != 0;
        const status refusal = want && checks ? session_.check(opcode::read, where, data) : status();
        const sqe entry = session_.entry(opcode::read, where, data);
        io_token token =
            session_.queue().submit(group_, want && refusal.ok(), entry, client_.args().timeout_ns);
        if (!refusal.ok()) {
            token = io_token::refused(refusal);
        }
        if (want) {
            client_.submitted(token, where);
            idle_ &= ~(1u << k);
            busy_ |= 1u << k;
            place<0>(k, token, client_.expected(where));
        }
    }
    template <u32 K> WARPBELL_D void place(u32 k, io_token& token, u32 expected) {
        if (k == K) {
            token_[K] = move(token);
            expected_[K] = expected;
        }
        if constexpr (K + 1u < slots) {
            place<K + 1u>(k, token, expected);
        }
    }

    // Takes in this lane's answers, or gives up waiting for them. Whether there was one.
    WARPBELL_D bool harvest(bool give_up) { return harvest_from<0>(give_up); }
    template <u32 K> WARPBELL_D bool harvest_from(bool give_up) {
        bool news = false;
        if (busy_ >> K & 1u) {
            if (optional<status> done = session_.queue().try_wait(group_, token_[K])) {
                finish(1u << K, *done, expected_[K]);
                news = true;
            } else if (give_up) {
                finish(1u << K, session_.queue().abandon(move(token_[K])), expected_[K]);
            }
        }
        if constexpr (K + 1u < slots) {
            news = harvest_from<K + 1u>(give_up) || news;
        }
        return news;
    }
    WARPBELL_D void finish(u32 bit, status s, u32 expected) {
        busy_ &= ~bit;
        idle_ |= s.buffer_in_use() ? 0 : bit;
        client_.answered(s, expected);
    }

    client client_;
    const lanes& group_;
    session<Mode> session_;
    const u32 batch_;
    u32 idle_, busy_ = 0; // bit k: slot k may be used; its command is in flight
    u32 turns_ = 0;
    const u64 limit_;
    u64 issued_ = 0;
    bool stopping_ = false;
    io_token token_[slots];
    u32 expected_[slots] = {};
};

// ---- latency: each thread waits for its own command

// The group is a warp, whose lanes submit together, or this thread.
template <sharing Mode, class Group> class waiting_client {
  public:
    WARPBELL_D waiting_client(const warpbell_resident_args& args, const client_place& place,
                              const Group& group)
        : client_(args, place), group_(group), session_(group, args.ns, place.number) {}

    WARPBELL_D void run() {
        u64 left = share_of(client_.limit());
        for (u32 turn = 0; group_.ballot(left != 0) != 0; ++turn) {
            const bool timed = client_.args().histograms != 0;
            const u64 before = timed ? port::clock_ns() : 0;
            const bool want = left != 0;
            const extent where = want ? client_.draw() : extent{lba(0), 1};
            const status s = one(want, where);
            if (want) {
                left -= left == ~0ull ? 0 : 1;
                client_.answered(s, client_.expected(where));
                if (timed) {
                    client_.record(port::clock_ns() - before);
                }
            }
            if ((turn & 15u) == 15u || group_.ballot(s.is(code::queue_lost) || s.is(code::no_cid)) != 0) {
                left = must_end(s) ? 0 : left;
            }
        }
    }
    template <class Whole> WARPBELL_D void end(const Whole& whole) {
        session_.detach(group_);
        client_.finish(whole);
    }

  private:
    WARPBELL_D u64 share_of(u64 limit) const {
        return limit == ~0ull ? limit
                              : limit / WARPBELL_WARP_LANES + (port::lane() < limit % WARPBELL_WARP_LANES);
    }
    WARPBELL_D status one(bool want, extent where) {
        const u64 timeout_ns = client_.args().timeout_ns;
        io_token token =
            submit_each(group_, session_,
                        command::read(want ? optional<extent>(where) : nullopt, client_.data(0)), timeout_ns);
        if (want) {
            client_.submitted(token, where);
        }
        return wait_each(group_, session_, move(token), timeout_ns);
    }
    // The group's leader looks at clock and host for all.
    WARPBELL_D bool must_end(status s) const {
        const bool up = group_.is_leader() && client_.time_is_up(port::clock_ns());
        return group_.ballot(up || s.is(code::queue_lost) || s.is(code::no_cid)) != 0;
    }

    client client_;
    const Group& group_;
    session<Mode> session_;
};

} // namespace kernels
