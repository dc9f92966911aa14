// What kernels `bench` and `bench_traced` do: keep iodepth commands outstanding per queue until told to stop.
#pragma once

#include "quota.cuh"
#include "waiting.cuh"
#include "workload.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class bench_warp : workload {
  public:
    WARPBELL_D bench_warp(const warpbell_bench_args& args, const quota& mine, const lanes& group)
        : workload(args, warp_number(), busy_warps(args, warps_of_launch()),
                   static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane()),
          group_(group), session_(group, args.ns, warp_number()), batch_(mine.batch(args.batch)),
          slots_((mine.commands - port::lane() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES),
          idle_(slots_ < 32 ? (1u << slots_) - 1u : ~0u),
          timeout_ns_(args.timeout_ns ? args.timeout_ns : session_.queue().ref().timeout_ns) {}

    WARPBELL_D void run() {
        start(group_);
        backoff patience(args_.timeout_ns);
        for (;;) {
            while (submit_some(false)) {
            }
            const progress_result did = session_.queue().progress(group_, patience);
            if (did != progress_result::idle) {
                patience = backoff(args_.timeout_ns);
            }
            tick(group_, (++ticks_ & 15u) == 0);
            if (Mode == sharing::shared || did != progress_result::idle || (ticks_ & 15u) == 0) {
                harvest(did == progress_result::lost);
            }
            if (did == progress_result::lost && !gave_up_) {
                switch_over();
            }
            if ((did == progress_result::idle || ending()) && group_.ballot(unfinished() != 0) == 0) {
                if (ending() || (!submit_some(true) && group_.ballot(waiting_.hopeful() != 0) == 0)) {
                    break;
                }
            }
        }
        write_result(group_, args_.results, tally_, io_bytes_, warp_number() % args_.ns.queue_count,
                     start_ns_);
        session_.detach(group_);
    }

  private:
    struct slot {
        io_token token;
        u64 lba = 0;
        u64 start_ns = 0; // of the I/O
        u32 done = 0;     // blocks of the I/O that earlier commands moved: one above the limit takes several
        bool writes = false;
    };

    WARPBELL_D u32 busy() const {
        return (slots_ < 32 ? (1u << slots_) - 1u : ~0u) & ~idle_ & ~begun_ & ~waiting_.all();
    }
    WARPBELL_D u32 unfinished() const { return busy() | begun_ | waiting_.unfinished(); }

    // One command from each lane that has one to submit; returns whether there was any. Begins I/Os if
    // enough lanes can, or `any`.
    WARPBELL_D bool submit_some(bool any) {
        u32 k = no_slot;
        if (!carry_on(k) && !begin_some(any, k)) {
            return false;
        }
        issue(k != no_slot, k & (slots_max - 1u));
        return true;
    }

    // I/Os that have blocks left: above the transfer limit, or to be submitted again.
    WARPBELL_D bool carry_on(u32& k) {
        const bool some = args_.blocks_per_io > session_.max_blocks() || args_.retries != 0;
        if (!some || group_.ballot(begun_ != 0) == 0) {
            return false;
        }
        if (begun_ != 0) {
            k = port::lowest(begun_);
            begun_ &= begun_ - 1u;
        }
        return true;
    }

    WARPBELL_D bool begin_some(bool any, u32& k) {
        if (ending()) {
            return false;
        }
        const u32 able = group_.ballot(idle_ != 0), n = part_of(port::population(able));
        const u32 enough = part_of(batch_);
        if (n == 0 || (n < enough && !any)) {
            return false;
        }
        const u32 rank = rank_in(able);
        if (idle_ != 0 && rank < n) {
            k = port::lowest(idle_);
            begin(k, rank);
        }
        pass(n);
        return true;
    }

    WARPBELL_D dma_span data_of(u32 k) const {
        return workload::data_of(warp_number(), k * WARPBELL_WARP_LANES + port::lane());
    }

    // Draws the I/O of slot k.
    WARPBELL_D void begin(u32 k, u32 rank) {
        idle_ &= ~(1u << k);
        const io what = draw(rank);
        slot_[k].lba = what.lba;
        slot_[k].writes = what.writes;
        slot_[k].start_ns = now_ns_;
        slot_[k].done = 0;
        waiting_.begin(k);
        fill(what, data_of(k));
    }

    // The blocks of slot k's next command.
    WARPBELL_D u32 piece_blocks(u32 k) const {
        const u32 rest = args_.blocks_per_io - slot_[k].done;
        return rest < session_.max_blocks() ? rest : session_.max_blocks();
    }

    // The next command of the I/O in slot k.
    WARPBELL_D void issue(bool want, u32 k) {
        const opcode op = slot_[k].writes ? opcode::write : opcode::read;
        const u32 done = want ? slot_[k].done : 0;
        const extent where = {warpbell::lba(slot_[k].lba + done), want ? piece_blocks(k) : 1u};
        const u64 block_bytes = session_.block_bytes();
        const dma_span data = data_of(k).subspan(done * block_bytes, where.blocks * block_bytes);
        io_token token;
        if (args_.api == WARPBELL_API_RAW) {
            sqe entry = {};
            if (want) {
                entry = session_.entry(op, where, data);
            }
            token = session_.queue().submit(group_, want, entry, args_.timeout_ns);
        } else {
            token = detail::start_each(group_, session_, op, want ? optional<extent>(where) : nullopt, data,
                                       args_.timeout_ns);
        }
        if (want) {
            refused_ |= token.in_flight() ? 0u : 1u << k;
            slot_[k].token = move(token);
        }
    }

    // This lane's slots whose commands were answered, or refused.
    WARPBELL_D u32 ended() {
        const queue<Mode>& q = session_.queue();
        const u32 answered = q.answered();
        u32 found = refused_;
        for (u32 left = answered != 0 ? busy() & ~refused_ : 0; left != 0; left &= left - 1u) {
            const u32 k = port::lowest(left);
            found |= (answered >> q.id(slot_[k].token) & 1u) << k;
        }
        return found;
    }

    // Takes in this lane's commands that have ended, or are past their deadline; all of them if the queue is
    // lost.
    WARPBELL_D void harvest(bool lost) {
        const bool all = lost || now_ns_ > late_ns_;
        late_ns_ = all ? now_ns_ + timeout_ns_ : late_ns_;
        for (u32 left = all ? busy() : ended(); left != 0; left &= left - 1u) {
            const u32 k = port::lowest(left);
            io_token& token = slot_[k].token;
            const u32 cid = token.cid();
            if (optional<status> done = session_.queue().try_wait(group_, token)) {
                finish(k, *done, cid);
                continue;
            }
            const u64 end_ns = waiting_.since(k, slot_[k].start_ns) + timeout_ns_;
            if (lost || now_ns_ > end_ns) {
                finish(k, session_.queue().abandon(move(token)), cid);
            } else if (end_ns < late_ns_) {
                late_ns_ = end_ns;
            }
        }
        refused_ = 0;
        if (waiting_.all() != 0 && !lost) {
            apply(waiting_.poll(session_.queue(), now_ns_, args_.recover_ns), code::timed_out);
        }
    }

    // The queue is lost. With every lane's commands answered, goes on with its successor, if it is to.
    WARPBELL_D void switch_over() {
        tally_.queue_losses += group_.is_leader() ? 1u : 0u;
        status back = code::queue_lost;
        if (args_.recover_ns != 0) {
            back = session_.switch_to_successor(group_, args_.recover_ns);
            tick(group_, false);
        }
        if (back.ok()) {
            apply(waiting_.replaced(), back);
            return;
        }
        stopping_ = gave_up_ = true;
        apply(waiting_.give_up(), back);
    }

    // What has become of slots that waited; `why`: of I/Os that are over.
    WARPBELL_D void apply(const waiting_slots::change& change, status why) {
        idle_ |= change.idle;
        begun_ |= change.go_on;
        tally_.retried += port::population(change.go_on);
        for (u32 left = change.go_on; left != 0; left &= left - 1u) {
            waiting_.resume(port::lowest(left), now_ns_);
        }
        for (u32 left = change.over; left != 0; left &= left - 1u) {
            fail(slot_[port::lowest(left)].lba, why);
        }
    }

    // A command of the I/O in slot k did not end well: the I/O goes on later, or is over.
    WARPBELL_D void fall_short(u32 k, status s, u32 cid) {
        count(s);
        const u32 left = gave_up_ ? 0 : args_.retries - waiting_.tries(k);
        bool over = true;
        if (s.buffer_in_use()) {
            // A buffer that the controller may still use stays out of use, with its slot.
            over = left == 0 || args_.recover_ns == 0;
            waiting_.hold(k, s.is(code::timed_out) ? cid : waiting_slots::until_replaced, !over, now_ns_);
        } else if (const optional<u64> delay = retry_delay_ns(session_, s, left)) {
            over = false;
            waiting_.delay(k, now_ns_ + *delay);
        } else {
            idle_ |= 1u << k;
        }
        if (over) {
            fail(slot_[k].lba, s);
        }
    }

    // The command of slot k was answered.
    WARPBELL_D void finish(u32 k, status s, u32 cid) {
        const u32 bit = 1u << k;
        if (!s.ok()) {
            fall_short(k, s, cid);
            return;
        }
        slot_[k].done += piece_blocks(k);
        if (slot_[k].done < args_.blocks_per_io) {
            begun_ |= bit;
            return;
        }
        idle_ |= bit;
        tally_.recovered += waiting_.tries(k) != 0 ? 1u : 0u;
        succeed({slot_[k].lba, slot_[k].writes}, slot_[k].start_ns, data_of(k));
    }

    const lanes& group_;
    session<Mode> session_;
    const u32 batch_, slots_;
    u32 idle_;        // bit k: slot k may be used
    u32 begun_ = 0;   // bit k: its I/O has blocks left that no command was submitted for
    u32 refused_ = 0; // bit k: its command was not submitted
    u32 ticks_ = 0;
    const u64 timeout_ns_;
    u64 late_ns_ = 0;      // no command is past its deadline until then
    bool gave_up_ = false; // the queue is lost, and there is no other
    waiting_slots waiting_;
    slot slot_[slots_max];
};

WARPBELL_D void run_bench(const warpbell_bench_args& args) {
    const quota mine(args);
    if (port::lane() >= mine.lanes()) {
        return;
    }
    const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - mine.lanes()));
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        bench_warp<sharing::exclusive>(args, mine, group).run();
    } else {
        bench_warp<sharing::shared>(args, mine, group).run();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
