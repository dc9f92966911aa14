// The loop of the laboratory: every lane keeps one I/O in flight, by the protocol that the loop is made of.
//
// A protocol is a class with
//   go_on(mine)               whether the lanes that call together go on; the same in all of them
//   agree(stopping)           whether this lane shall stop
//   takes(want, busy)         whether it takes commands now
//   submit(session, want, entry, now)  a command of each lane with `want`
//   poll(session, busy)       the status of this lane's command, if there is one
// The session is handed in, and not kept: a reference to it would keep all of it in local memory.
// Each wait in it ends at the command's deadline, which ends the run: a lost command is an error, never a
// hang.
#pragma once

#include "../histogram.cuh"
#include "board.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <class Protocol> class lab_warp {
  public:
    WARPBELL_D lab_warp(const warpbell_lab_args& args, const lab_place& place, const lab_board& board)
        : args_(args.bench), place_(place), board_(board),
          session_(this_warp(), args.bench.ns, place.session_warp(args.bench.ns.queue_count)),
          protocol_(args, place, board, session_),
          number_(static_cast<u64>(place.queue) * args_.iodepth + place.number()),
          limit_(place.works() ? lab_portion(args_).of(number_) : 0),
          seed_(random_number(args_.seed, number_)), io_bytes_(args_.blocks_per_io << args_.ns.block_shift),
          sequence_(number_) {
        wrap();
    }

    // `open`: the queue may be used.
    WARPBELL_D void run(bool open) {
        const this_warp_t warp;
        start_ns_ = warp.broadcast(port::clock_ns());
        if (open) {
            go();
        } else if (place_.works()) {
            fail(args_.first_lba, code::queue_lost);
        }
        warp.sync();
        write_result(warp, args_.results, tally_, io_bytes_, place_.queue, start_ns_);
        session_.detach(warp);
    }

  private:
    WARPBELL_D void go() {
        while (protocol_.go_on(busy_ || wants())) {
            const bool want = !busy_ && wants();
            if (protocol_.takes(want, busy_)) {
                sqe entry = {};
                if (want) {
                    entry = begin();
                }
                protocol_.submit(session_, want, entry, begun_ns_);
                busy_ = busy_ || want;
            }
            if (const optional<status> done = protocol_.poll(session_, busy_)) {
                busy_ = false;
                finish(*done);
            }
            stopping_ = protocol_.agree(stopping_);
        }
    }

    WARPBELL_D bool wants() const { return !stopping_ && issued_ < limit_; }

    WARPBELL_D u64 next_unit(u64 random) const {
        if (args_.pattern == WARPBELL_PATTERN_RANDOM) {
            return below(args_.units, random);
        }
        return sequence_;
    }
    WARPBELL_D void wrap() {
        while (sequence_ >= args_.units) {
            sequence_ -= args_.units;
        }
    }
    WARPBELL_D dma_span data() const {
        return dma_span(args_.buffer).subspan(number_ * io_bytes_, io_bytes_);
    }
    WARPBELL_D unit_pattern pattern() const {
        return unit_pattern(reinterpret_cast<const u32*>(args_.crc_tables), args_.seed, lba_, io_bytes_);
    }

    // Draws the next I/O, as `bench` does; a write brings what a read is to find.
    WARPBELL_D sqe begin() {
        const u64 random = random_number(seed_, issued_);
        writing_ = (static_cast<u64>(static_cast<u32>(random)) * 100u >> 32) >= args_.read_percent;
        lba_ = args_.first_lba + next_unit(random) * args_.blocks_per_io;
        ++issued_;
        sequence_ += static_cast<u64>(args_.iodepth) * args_.ns.queue_count;
        wrap();
        if (writing_ && args_.verify) {
            pattern().fill(data().template data<u64>());
        }
        begun_ns_ = port::clock_ns();
        const opcode op = writing_ ? opcode::write : opcode::read;
        return session_.entry(op, {lba(lba_), args_.blocks_per_io}, data());
    }

    WARPBELL_D void finish(status s) {
        const u64 now_ns = port::clock_ns();
        if (!s.ok()) {
            fail(lba_, s);
            return;
        }
        ++(writing_ ? tally_.writes : tally_.reads);
        record_latency(args_.histograms, now_ns - begun_ns_, writing_);
        if (!writing_ && args_.verify) {
            const u64* unit = data().template data<const u64>();
            const unit_pattern expected = pattern();
            if (!expected.right(unit)) {
                tally_.mismatch(expected.compare(unit, session_.block_bytes()));
            }
        }
        stopping_ = stopping_ || (args_.runtime_ns != 0 && now_ns - start_ns_ >= args_.runtime_ns) ||
                    ((issued_ & 15u) == 0 && stop_asked(args_.mailbox));
    }

    // A status of the library means that the queue, or the lane's buffer, is of no more use: all of them
    // stop.
    WARPBELL_D void fail(u64 first, status s) {
        tally_.timed_out += s.is(code::timed_out) ? 1u : 0u;
        tally_.not_submitted += s.is(code::not_submitted) ? 1u : 0u;
        tally_.aborted += s.is_aborted() ? 1u : 0u;
        tally_.error(first, s);
        report_error(args_.mailbox, first, s);
        if (s.from_library()) {
            stopping_ = true;
            ask_to_stop(args_.mailbox);
        }
    }

    const warpbell_bench_args& args_;
    const lab_place& place_;
    const lab_board& board_;
    session<sharing::shared> session_;
    Protocol protocol_;
    const u64 number_, limit_, seed_;
    const u32 io_bytes_;
    u64 sequence_; // next unit, sequential
    u64 issued_ = 0, lba_ = 0, start_ns_ = 0, begun_ns_ = 0;
    bool busy_ = false, writing_ = false, stopping_ = false;
    tally tally_;
};

// What a warp that submits does, from taking the queue over to handing it over.
template <class Protocol> WARPBELL_D void run_lab(const warpbell_lab_args& args, bool served) {
    const lab_place place(args);
    const lab_board board(args, place.queue);
    const this_warp_t warp;
    const bool open = !Protocol::own_rings || board.open(place.slot == 0 && warp.is_leader());
    warp.sync();
    lab_warp<Protocol>(args, place, board).run(open);
    if (Protocol::own_rings && warp.is_leader() && board.leave(place.warps_here) && !served) {
        board.hand_over();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
