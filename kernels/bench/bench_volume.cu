// Kernels `bench_volume*`: each lane keeps its part of iodepth reads in flight on a volume (volume.cuh), at
// random places, each of one command. A kernel for each mapping of warps to queues and replicas.
#include "quota.cuh"
#include "workload.cuh"
#include <warpbell/volume.cuh>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <class Map> class volume_warp : workload {
  public:
    WARPBELL_D volume_warp(const warpbell_bench_volume_args& args, const quota& mine, const lanes& group)
        : workload(args.bench, warp_number(), warps_of_launch(),
                   static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane()),
          group_(group), data_(args.buffer), volume_(group, args.volume, warp_number()),
          slots_((mine.commands + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES),
          idle_(own_slots(mine.commands)) {}

    WARPBELL_D void run() {
        start(group_);
        for (u32 ticks = 1;; ++ticks) {
            begin_all();
            if (group_.ballot(busy_ != 0) == 0) {
                break;
            }
            tick(group_, (ticks & 15u) == 0);
            if (!end_some()) {
                port::pause();
            }
        }
        write_result(group_, args_.results, tally_, io_bytes_, 0, start_ns_);
        volume_.detach(group_);
    }

  private:
    struct flight {
        volume_token token;
        u64 lba = 0, start_ns = 0;
    };

    // A bit for each read that this lane may have in flight: its own of the warp's, which go around its
    // lanes.
    WARPBELL_D static u32 own_slots(u32 commands) {
        const u32 rest = commands % WARPBELL_WARP_LANES;
        const u32 own = commands / WARPBELL_WARP_LANES + (port::lane() < rest ? 1u : 0u);
        return (1u << own) - 1u;
    }

    WARPBELL_D void begin_all() {
        for (u32 k = 0; k < slots_ && !ending(); ++k) {
            const u32 able = group_.ballot((idle_ >> k & 1u) != 0);
            const u32 n = part_of(port::population(able));
            if (n != 0) {
                begin(k, (able >> port::lane() & 1u) != 0 && rank_in(able) < n);
                pass(n);
            }
        }
    }

    // A read of each lane that wants one, in slot k.
    WARPBELL_D void begin(u32 k, bool want) {
        optional<extent> where;
        if (want) {
            slot_[k].lba = draw(0).lba;
            slot_[k].start_ns = now_ns_;
            where = extent{lba(slot_[k].lba), args_.blocks_per_io};
            idle_ &= ~(1u << k);
            busy_ |= 1u << k;
        }
        const u64 number =
            static_cast<u64>(warp_number()) * args_.units_per_warp + k * WARPBELL_WARP_LANES + port::lane();
        const volume_span into = want ? data_.subspan(number * io_bytes_, io_bytes_) : data_;
        volume_token token = submit_read_each(group_, volume_, where, into, args_.timeout_ns);
        if (want) {
            slot_[k].token = move(token);
        }
    }

    // Takes in what was answered, was refused, or had its time; whether there was any.
    WARPBELL_D bool end_some() {
        bool any = false;
        WARPBELL_NO_UNROLL
        for (u32 k = 0; k < slots_; ++k) {
            const bool mine = (busy_ >> k & 1u) != 0;
            if (group_.ballot(mine) == 0) {
                continue;
            }
            optional<status> said = try_wait(group_, volume_, slot_[k].token);
            const bool late = mine && !said && now_ns_ - slot_[k].start_ns > args_.timeout_ns;
            if (group_.ballot(late) != 0) {
                said = give_up(k, late, said);
            }
            if (mine && said) {
                end(k, *said);
                any = true;
            }
        }
        // One that failed ends the warp: its buffer may still be used.
        stopping_ = stopping_ || group_.ballot(tally_.errors != 0) != 0;
        return group_.ballot(any) != 0;
    }

    WARPBELL_D optional<status> give_up(u32 k, bool late, optional<status> said) {
        volume_token token;
        if (late) {
            token = move(slot_[k].token);
        }
        const status left = wait_each(group_, volume_, move(token), 1);
        return late ? optional<status>(left) : said;
    }

    WARPBELL_D void end(u32 k, status said) {
        busy_ &= ~(1u << k);
        if (said.ok()) {
            idle_ |= 1u << k;
            ++tally_.reads;
            record_latency(args_.histograms, now_ns_ - slot_[k].start_ns, false);
        } else {
            count(said);
            fail(slot_[k].lba, said);
        }
    }

    const lanes& group_;
    const volume_span data_;
    volume<sharing::shared, WARPBELL_BENCH_VOLUME_MEMBERS, Map> volume_;
    const u32 slots_; // of a lane, at most
    u32 idle_;        // bit k: slot k may be used
    u32 busy_ = 0;    // bit k: its read has no answer yet
    flight slot_[WARPBELL_BENCH_VOLUME_TOKENS];
};

// iodepth is all warps' together: as if there were one queue.
template <class Map> WARPBELL_D void run_bench_volume(const warpbell_bench_volume_args& args) {
    const quota mine(args.bench.iodepth, 1, warp_number(), warps_of_launch());
    if (port::lane() >= mine.lanes()) {
        return;
    }
    const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - mine.lanes()));
    volume_warp<Map>(args, mine, group).run();
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(bench_volume, warpbell_bench_volume_args) {
    kernels::run_bench_volume<warpbell::round_robin>(args);
}
WARPBELL_KERNEL(bench_volume_hashed, warpbell_bench_volume_args) {
    kernels::run_bench_volume<warpbell::hashed>(args);
}
WARPBELL_KERNEL(bench_volume_by_cta, warpbell_bench_volume_args) {
    kernels::run_bench_volume<warpbell::by_cta>(args);
}
WARPBELL_KERNEL(bench_volume_nearest, warpbell_bench_volume_args) {
    kernels::run_bench_volume<warpbell::nearest>(args);
}
