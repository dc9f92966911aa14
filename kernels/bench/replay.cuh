// What kernels `replay` and `replay_traced` do: submit a list of commands again, each warp its own in order.
#pragma once

#include <warpbell/deallocate.cuh>

#include "histogram.cuh"
#include "quota.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class replay_warp {
  public:
    WARPBELL_D replay_warp(const warpbell_replay_args& args, const quota& mine, const lanes& group)
        : args_(args), group_(group), session_(group, args.ns, warp_number()), batch_(mine.batch(args.batch)),
          slots_((mine.commands - port::lane() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES),
          idle_(all_slots()),
          timeout_ns_(args.timeout_ns ? args.timeout_ns : session_.queue().ref().timeout_ns),
          next_(reinterpret_cast<const u64*>(args.firsts)[warp_number()]),
          end_(reinterpret_cast<const u64*>(args.firsts)[warp_number() + 1u]) {}

    WARPBELL_D void run() {
        start_ns_ = group_.broadcast(port::clock_ns());
        now_ns_ = start_ns_;
        backoff patience(args_.timeout_ns);
        for (;;) {
            while (submit_some(false)) {
            }
            const progress_result did = session_.queue().progress(group_, patience);
            if (did != progress_result::idle) {
                patience = backoff(args_.timeout_ns);
            }
            tick();
            lost_ = lost_ || did == progress_result::lost;
            harvest();
            if (group_.ballot(busy() != 0) == 0 && !submit_some(true) && over()) {
                break;
            }
        }
        finish();
    }

  private:
    struct slot {
        io_token token;
        u64 lba = 0;
        u64 start_ns = 0;
        u32 blocks = 0;
        opcode op = opcode::flush;
    };

    WARPBELL_D u32 all_slots() const { return slots_ < 32 ? (1u << slots_) - 1u : ~0u; }
    WARPBELL_D u32 busy() const { return all_slots() & ~idle_ & ~dead_; }
    // Nothing is in flight: whether nothing more will be, as all is done, it is to stop, or no buffer is
    // left.
    WARPBELL_D bool over() const {
        return next_ >= end_ || stopping_ || lost_ || group_.ballot(idle_ != 0) == 0;
    }

    // The lanes below the lowest of `stops`.
    WARPBELL_D static u32 before(u32 lanes, u32 stops) {
        return stops ? lanes & ((stops & (0u - stops)) - 1u) : lanes;
    }

    // The leader's clock, for all lanes, and whether it is time to end.
    WARPBELL_D void tick() {
        u64 now = 0;
        ++ticks_;
        if (group_.is_leader()) {
            const bool stop = (ticks_ & 15u) == 0 && stop_asked(args_.mailbox);
            now = (port::clock_ns() & ~(1ull << 63)) | static_cast<u64>(stop) << 63;
        }
        now = group_.broadcast(now);
        stopping_ = stopping_ || now >> 63 != 0;
        now_ns_ = now & ~(1ull << 63);
    }

    // The next commands that are due, one for each lane that has room, in their order; returns whether there
    // were any. Fewer than a batch wait for more, unless `any`. A flush covers what was answered before it
    // (NVM Command Set 1.0, 3.2.1): it waits for the warp's commands before it, and goes alone.
    WARPBELL_D bool submit_some(bool any) {
        if (stopping_ || lost_ || next_ >= end_) {
            return false;
        }
        const u32 able = group_.ballot(idle_ != 0), rank = rank_in(able);
        const u64 rest = end_ - next_;
        const u32 enough = rest < batch_ ? static_cast<u32>(rest) : batch_;
        if (able == 0 || (port::population(able) < enough && !any)) {
            return false;
        }
        bool mine = idle_ != 0 && rank < rest;
        warpbell_replay_command command = {};
        if (mine) {
            command = reinterpret_cast<const warpbell_replay_command*>(args_.commands)[next_ + rank];
        }
        const u32 early = group_.ballot(mine && command.due_ns > now_ns_ - start_ns_);
        const u32 flushes = group_.ballot(mine && static_cast<opcode>(command.opcode) == opcode::flush);
        u32 due = before(able, early | flushes);
        if (due == 0 && (before(able, early) & flushes) != 0 && group_.ballot(busy() != 0) == 0) {
            due = flushes & (0u - flushes);
        }
        mine = mine && (due >> port::lane() & 1u) != 0;
        const u32 n = port::population(group_.ballot(mine));
        if (n == 0) {
            port::pause();
            return false;
        }
        issue(mine, command);
        next_ += n;
        return true;
    }

    WARPBELL_D dma_span data_of(u32 k) const {
        const u64 number =
            static_cast<u64>(warp_number()) * args_.units_per_warp + k * WARPBELL_WARP_LANES + port::lane();
        const u64 bytes = static_cast<u64>(args_.unit_blocks) * session_.block_bytes();
        return dma_span(args_.buffer).subspan(number * bytes, bytes);
    }

    WARPBELL_D void issue(bool mine, const warpbell_replay_command& command) {
        const u32 k = mine ? port::lowest(idle_) : 0;
        const opcode op = static_cast<opcode>(command.opcode);
        const extent where = {lba(command.lba), command.blocks};
        status refusal;
        sqe entry = {};
        if (mine && op == opcode::flush) {
            entry = detail::flush_entry(session_);
        } else if (mine && op == opcode::dataset_management) {
            refusal = deallocating(where, data_of(k), entry);
        } else if (mine) {
            const u64 bytes = static_cast<u64>(where.blocks) * session_.block_bytes();
            const dma_span data = data_of(k).subspan(0, bytes);
            refusal = session_.check(op, where, data);
            if (refusal.ok()) {
                entry = session_.entry(op, where, data);
            }
        }
        io_token token = session_.queue().submit(group_, mine && refusal.ok(), entry, args_.timeout_ns);
        if (!mine) {
            return;
        }
        slot& flight = slot_[k];
        flight.token = refusal.ok() ? move(token) : io_token::refused(refusal);
        flight.lba = command.lba;
        flight.blocks = command.blocks;
        flight.op = op;
        flight.start_ns = now_ns_;
        idle_ &= ~(1u << k);
    }

    // The entry of a command that deallocates one extent, by a list in the slot's data; or why there is none.
    WARPBELL_D status deallocating(extent where, const dma_span& slot, sqe& entry) {
        const dma_span list = slot.subspan(0, detail::range_bytes);
        status refusal = session_.check_blocks(opcode::dataset_management, where);
        if (refusal.ok()) {
            refusal = session_.check_data(list, detail::range_bytes);
        }
        if (refusal.ok()) {
            entry = detail::list_ranges(session_, optional<extent>(where), list, 1u << port::lane());
        }
        return refusal;
    }

    // Takes in this lane's commands that have completed, were refused, or are past their deadline.
    WARPBELL_D void harvest() {
        for (u32 left = busy(); left != 0; left &= left - 1u) {
            const u32 k = port::lowest(left);
            io_token& token = slot_[k].token;
            if (optional<status> done = session_.queue().try_wait(group_, token)) {
                end_command(k, *done);
            } else if (lost_ || now_ns_ - slot_[k].start_ns > timeout_ns_) {
                end_command(k, session_.queue().abandon(move(token)));
            }
        }
    }

    WARPBELL_D void end_command(u32 k, status s) {
        const slot& flight = slot_[k];
        // A buffer that the controller may still use stays out of use, with its slot.
        (s.buffer_in_use() ? dead_ : idle_) |= 1u << k;
        if (!s.ok()) {
            tally_.error(flight.lba, s);
            report_error(args_.mailbox, flight.lba, s);
            return;
        }
        if (flight.op == opcode::flush) {
            ++totals_.flushes;
            return;
        }
        if (flight.op == opcode::dataset_management) {
            ++totals_.trims;
            totals_.blocks_trimmed += flight.blocks;
            return;
        }
        const bool wrote = flight.op == opcode::write;
        const u64 bytes = static_cast<u64>(flight.blocks) * session_.block_bytes();
        ++(wrote ? tally_.writes : tally_.reads);
        (wrote ? totals_.bytes_written : totals_.bytes_read) += bytes;
        record_latency(args_.histograms, now_ns_ - flight.start_ns, wrote);
    }

    WARPBELL_D void finish() {
        write_result(group_, args_.results, tally_, 0, warp_number() % args_.ns.queue_count, start_ns_);
        warpbell_replay_result total = {};
        total.flushes = sum(group_, totals_.flushes);
        total.bytes_read = sum(group_, totals_.bytes_read);
        total.bytes_written = sum(group_, totals_.bytes_written);
        total.left = end_ - next_;
        total.trims = sum(group_, totals_.trims);
        total.blocks_trimmed = sum(group_, totals_.blocks_trimmed);
        if (group_.is_leader()) {
            reinterpret_cast<warpbell_replay_result*>(args_.totals)[warp_number()] = total;
        }
        session_.detach(group_);
    }

    const warpbell_replay_args& args_;
    const lanes& group_;
    session<Mode> session_;
    const u32 batch_, slots_;
    u32 idle_;     // bit k: slot k may be used
    u32 dead_ = 0; // bit k: its command timed out
    u32 ticks_ = 0;
    const u64 timeout_ns_;
    u64 next_, end_; // commands to come; alike in all lanes
    u64 start_ns_ = 0, now_ns_ = 0;
    bool stopping_ = false, lost_ = false;
    tally tally_;
    warpbell_replay_result totals_ = {};
    slot slot_[slots_max];
};

WARPBELL_D void run_replay(const warpbell_replay_args& args) {
    const quota mine(args);
    if (port::lane() >= mine.lanes()) {
        return;
    }
    const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - mine.lanes()));
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        replay_warp<sharing::exclusive>(args, mine, group).run();
    } else {
        replay_warp<sharing::shared>(args, mine, group).run();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
