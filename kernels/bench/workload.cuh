// What kernels `bench`, `bench_agent`, `bench_array_*`, `bench_batch`, `bench_tiles*` and `bench_volume*`
// have in common: which I/Os there are, when to end, and what came of each.
#pragma once

#include "histogram.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Of so many warps over the queues only the first iodepth of each have commands.
WARPBELL_D u32 busy_warps(const warpbell_bench_args& args, u32 warps) {
    const u64 most = static_cast<u64>(args.iodepth) * args.ns.queue_count;
    return warps < most ? warps : static_cast<u32>(most);
}

// One party's part of a launch's I/Os: a warp's, or a block's. They take turns at the units of a sequence.
class workload {
  protected:
    // Party `number` of `parties`; `stream`: of random numbers, this lane's.
    WARPBELL_D workload(const warpbell_bench_args& args, u32 number, u32 parties, u64 stream)
        : args_(args), parties_(parties), io_bytes_(args.blocks_per_io << args.ns.block_shift), limit_(~0ull),
          seed_(random_number(args.seed, stream)), sequence_(number) {
        if (args_.io_limit != 0) {
            limit_ = args_.io_limit / parties + (number < args_.io_limit % parties ? 1u : 0u);
        }
        wrap(sequence_);
    }

    template <class Group> WARPBELL_D void start(const Group& group) {
        start_ns_ = group.broadcast(port::clock_ns());
        now_ns_ = start_ns_;
    }
    // The leader's clock, for all, and whether it is time to end. `asks`: whether the host was heard too.
    template <class Group> WARPBELL_D void tick(const Group& group, bool asks) {
        u64 now = 0;
        if (group.is_leader()) {
            now = port::clock_ns();
            bool stop = args_.runtime_ns != 0 && now - start_ns_ >= args_.runtime_ns;
            stop = stop || (asks && stop_asked(args_.mailbox));
            now = (now & ~(1ull << 63)) | static_cast<u64>(stop) << 63;
        }
        now = group.broadcast(now);
        stopping_ = stopping_ || now >> 63 != 0;
        now_ns_ = now & ~(1ull << 63);
    }
    WARPBELL_D bool ending() const { return stopping_ || issued_ >= limit_; }

    // How many I/Os to begin, if so many could be.
    WARPBELL_D u32 part_of(u32 able) const {
        const u64 rest = limit_ - issued_;
        return rest < able ? static_cast<u32>(rest) : able;
    }
    // So many have begun, each of a unit of its own.
    WARPBELL_D void pass(u32 begun) { pass(begun, begun); }
    WARPBELL_D void pass(u32 begun, u32 units) {
        issued_ += begun;
        sequence_ += static_cast<u64>(units) * parties_;
        wrap(sequence_);
    }

    struct io {
        u64 lba;
        bool writes;
    };
    // This lane's next I/O, number `rank` of those that begin together.
    WARPBELL_D io draw(u32 rank) {
        const u64 random = random_number(seed_, drawn_++);
        const bool reads = (static_cast<u64>(static_cast<u32>(random)) * 100u >> 32) < args_.read_percent;
        return {lba_of(unit(random, rank)), !reads};
    }
    // The data of an I/O: number `k` of those that warp `warp` may have in flight.
    WARPBELL_D dma_span data_of(u32 warp, u32 k) const {
        const u64 number = static_cast<u64>(warp) * args_.units_per_warp + k;
        return dma_span(args_.buffer).subspan(number * io_bytes_, io_bytes_);
    }
    WARPBELL_D unit_pattern pattern(u64 first) const {
        return unit_pattern(reinterpret_cast<const u32*>(args_.crc_tables), args_.seed, first, io_bytes_);
    }
    // What is to be written.
    WARPBELL_D void fill(const io& what, const dma_span& data) const {
        if (what.writes && args_.verify) {
            pattern(what.lba).fill(data.template data<u64>());
        }
    }

    WARPBELL_D void succeed(const io& what, u64 begin_ns, const dma_span& data) {
        ++(what.writes ? tally_.writes : tally_.reads);
        record_latency(args_.histograms, now_ns_ - begin_ns, what.writes);
        if (!what.writes && args_.verify) {
            const u64* found = data.template data<const u64>();
            const unit_pattern expected = pattern(what.lba);
            if (!expected.right(found)) {
                tally_.mismatch(expected.compare(found, 1u << args_.ns.block_shift));
            }
        }
    }
    WARPBELL_D void fail(u64 first, status why) {
        tally_.error(first, why);
        report_error(args_.mailbox, first, why);
    }
    // A command that did not end well.
    WARPBELL_D void count(status said) {
        tally_.timed_out += said.is(code::timed_out) ? 1u : 0u;
        tally_.not_submitted += said.is(code::not_submitted) ? 1u : 0u;
        tally_.aborted += said.is_aborted() ? 1u : 0u;
    }

    const warpbell_bench_args& args_;
    const u32 parties_, io_bytes_;
    u64 limit_;
    const u64 seed_;
    u64 sequence_; // next unit, sequential; alike in all lanes
    u64 issued_ = 0, drawn_ = 0, start_ns_ = 0, now_ns_ = 0;
    bool stopping_ = false;
    tally tally_;

  private:
    WARPBELL_D u64 lba_of(u64 unit) const {
        const u64* lbas = reinterpret_cast<const u64*>(args_.lbas);
        return lbas == nullptr ? args_.first_lba + unit * args_.blocks_per_io : lbas[unit];
    }
    WARPBELL_D void wrap(u64& unit) const {
        while (unit >= args_.units) {
            unit -= args_.units;
        }
    }
    WARPBELL_D u64 unit(u64 random, u32 rank) const {
        if (args_.pattern == WARPBELL_PATTERN_RANDOM) {
            return below(args_.units, random);
        }
        u64 next = sequence_ + static_cast<u64>(rank) * parties_;
        wrap(next);
        return next;
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
