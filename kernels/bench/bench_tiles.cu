// Kernels `bench_tiles*`: each warp streams tiles of blocks_per_io blocks from the SSD to its ring, and from
// there to shared memory (stream.cuh), and reads each word there: once, or, `_busy`, 64 times. `_resident`:
// tiles are loaded once, and then copied from the ring again and again.
#include "workload.cuh"
#include <warpbell/stream.cuh>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

constexpr u32 tile_slots = WARPBELL_BENCH_TILE_SLOTS, tile_stages = WARPBELL_BENCH_TILE_STAGES;

// The units of one warp in turn, without an end. `Resident`: only as many as the ring has slots.
template <bool Resident> class unit_tiles {
  public:
    WARPBELL_D unit_tiles(const warpbell_bench_args& args, u32 number, u32 parties)
        : first_(args.first_lba + static_cast<u64>(number) * args.blocks_per_io),
          stride_(static_cast<u64>(parties) * args.blocks_per_io), blocks_(args.blocks_per_io),
          bytes_(args.blocks_per_io << args.ns.block_shift), units_(own_units(args.units, number, parties)) {}
    WARPBELL_D u32 steps() const { return ~0u; }
    WARPBELL_D u32 slot_bytes() const { return bytes_; }
    WARPBELL_D warpbell_tile_step step(u32 index, u32 slots) const {
        warpbell_tile_step step = {};
        step.tile = (Resident ? index % slots : index) % units_;
        step.first_block = first_ + step.tile * stride_;
        step.blocks = blocks_;
        step.rows = 1;
        step.slot = index % slots;
        step.after = index < slots ? 0 : index - slots + 1u;
        step.flags = Resident && index >= slots ? WARPBELL_TILE_RESIDENT : 0;
        return step;
    }

  private:
    WARPBELL_D static u32 own_units(u64 units, u32 number, u32 parties) {
        const u64 own = units / parties + (number < units % parties ? 1u : 0u);
        return own == 0 ? 1u : own < ~0u ? static_cast<u32>(own) : ~0u;
    }

    const u64 first_, stride_;
    const u32 blocks_, bytes_, units_;
};

template <sharing Mode, bool Resident, u32 Passes> class tiles_warp : workload {
    using stream = tile_stream<session<Mode>, tile_slots, tile_stages, unit_tiles<Resident>>;
    static_assert(stream::shared_bytes(0) <= WARPBELL_BENCH_TILES_BYTES, "what the host sets aside");

  public:
    WARPBELL_D explicit tiles_warp(const warpbell_bench_args& args)
        : workload(args, warp_number(), warps_of_launch(), warp_number()),
          session_(this_warp(), args.ns, warp_number()) {}

    WARPBELL_D void run() {
        const u64 before = static_cast<u64>(warp_number()) * args_.units_per_warp;
        const dma_span slots =
            dma_span(args_.buffer).subspan(before * io_bytes_, u64{tile_slots} * io_bytes_);
        stream tiles(this_warp(), unit_tiles<Resident>(args_, warp_number(), parties_), session_, slots,
                     port::block_memory());
        start(this_warp());
        for (;;) {
            while (!ending() && tiles.producer_acquire(this_warp()).ok()) {
                begun_ns_[posted_++ % tile_slots] = now_ns_;
                (void)tiles.producer_commit(this_warp(), args_.timeout_ns); // refused: its tile says why
                pass(1);
            }
            if (taken_ == posted_) {
                break;
            }
            take(tiles.consumer_wait(this_warp(), args_.timeout_ns));
            (void)tiles.consumer_release(this_warp()); // it was waited for
        }
        (void)tiles.detach(this_warp()); // nothing is left
        // What was computed is used.
        slots.template data<u32>()[port::lane()] = sum_;
        write_result(this_warp(), args_.results, tally_, io_bytes_, warp_number() % args_.ns.queue_count,
                     start_ns_);
        session_.detach(this_warp());
    }

  private:
    WARPBELL_D void take(const stream_tile& tile) {
        if (tile) {
            use(tile);
        }
        tick(this_warp(), (++ticks_ & 15u) == 0);
        const u64 begun_ns = begun_ns_[taken_++ % tile_slots];
        if (port::lane() == 0 && tile) {
            ++tally_.reads;
            record_latency(args_.histograms, now_ns_ - begun_ns, false);
        } else if (port::lane() == 0) {
            count(tile.result());
            fail(tile.step().first_block, tile.result());
        }
        // No other tile is loaded into its slot: the warp ends.
        stopping_ = stopping_ || !tile;
    }

    // Each word is read; every sum needs the one before it.
    WARPBELL_D void use(const stream_tile& tile) {
        const u32* words = tile.template data<u32>();
        WARPBELL_NO_UNROLL
        for (u32 pass = 0; pass < Passes; ++pass) {
            for (u32 i = port::lane(); i < tile.bytes() / 4u; i += WARPBELL_WARP_LANES) {
                sum_ = (sum_ ^ words[i]) * 0x9e3779b1u + pass;
            }
        }
    }

    session<Mode> session_;
    u64 begun_ns_[tile_slots] = {};
    u32 posted_ = 0, taken_ = 0, ticks_ = 0, sum_ = 0;
};

template <bool Resident, u32 Passes> WARPBELL_D void run_tiles(const warpbell_bench_args& args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        tiles_warp<sharing::exclusive, Resident, Passes>(args).run();
    } else {
        tiles_warp<sharing::shared, Resident, Passes>(args).run();
    }
}

constexpr u32 busy_passes = 64;

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(bench_tiles, warpbell_bench_args) { kernels::run_tiles<false, 1>(args); }
WARPBELL_KERNEL(bench_tiles_busy, warpbell_bench_args) {
    kernels::run_tiles<false, kernels::busy_passes>(args);
}
WARPBELL_KERNEL(bench_tiles_resident, warpbell_bench_args) { kernels::run_tiles<true, 1>(args); }
WARPBELL_KERNEL(bench_tiles_resident_busy, warpbell_bench_args) {
    kernels::run_tiles<true, kernels::busy_passes>(args);
}
