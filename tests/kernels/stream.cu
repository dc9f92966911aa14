// Kernel `stream_test`: each block streams the tiles of a schedule, looks at each in shared memory, computes
// on it for a time, and notes what it was told and when.
#include <warpbell/stream.cuh>
#include <warpbell/warpbell.cuh>

using namespace warpbell;

struct stream_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref ring; // for each block
    warpbell_schedule_ref schedule;
    uint64_t records; // tile_record[blocks][steps]
    uint64_t notes;   // tile_note[blocks]
    uint64_t seed;
    uint64_t compute_ns;
    uint64_t timeout_ns;
    uint32_t shape; // which instantiation
    uint32_t flags;
};

constexpr uint32_t by_verbs = 1;
constexpr uint32_t waits_ahead = 2;
constexpr uint32_t leaves_early = 4;

struct tile_record {
    uint64_t begin_ns, end_ns; // of computing
    uint64_t tile;
    uint32_t answers; // threads
    uint32_t status;
    uint32_t wrong; // words
    uint32_t pad;
};

struct tile_note {
    uint32_t told; // of all tiles
    uint32_t loads;
    uint32_t reuses;
    uint32_t refused; // what was told wrongly of calls that cannot be made
    uint32_t left;    // of the loads that nobody waited for
    uint32_t pad;
};

namespace {

// What warpbell::TileSchedule::shared_bytes says, too.
static_assert(tile_stream<session<sharing::shared>, 1, 1>::shared_bytes(4096) == 512 + 4096);
static_assert(tile_stream<session<sharing::shared>, 3, 2>::shared_bytes(4096) == 1280 + 2 * 4096);
static_assert(tile_stream<session<sharing::shared>, 4, 2>::shared_bytes(4096) == 1664 + 2 * 4096);

WARPBELL_D uint64_t content(uint64_t seed, uint64_t block, uint64_t word) {
    const uint64_t mixed = (seed + block) * 0x9e3779b97f4a7c15u + word * 0xbf58476d1ce4e5b9u;
    return mixed ^ mixed >> 29;
}

// A list with steps in it that no host would make.
struct edited_tiles {
    listed_tiles list;
    uint32_t shape;

    WARPBELL_D uint32_t steps() const { return list.steps(); }
    WARPBELL_D uint32_t slot_bytes() const { return list.slot_bytes(); }
    WARPBELL_D warpbell_tile_step step(uint32_t index, uint32_t slots) const {
        warpbell_tile_step step = list.step(index, slots);
        if (shape == 10 && index == 0) {
            step.flags = WARPBELL_TILE_RESIDENT; // and nothing has loaded it
        }
        if ((shape == 10 && index == 3) || (shape == 11 && index == 6)) {
            step.blocks *= 2u; // no slot has room for it
        }
        return step;
    }
};

template <uint32_t Stages, class Tiles, class Group> class streamer {
  public:
    WARPBELL_D streamer(const stream_args& args, const Group& group, Tiles& tiles, uint32_t block_bytes,
                        uint32_t index, uint32_t steps)
        : args_(args), group_(group), tiles_(tiles), words_(block_bytes / 8u), steps_(steps),
          records_(reinterpret_cast<tile_record*>(args.records) + index * steps),
          note_(reinterpret_cast<tile_note*>(args.notes) + index) {}

    WARPBELL_D void run() {
        uint32_t refused = 0;
        status told;
        if ((args_.flags & by_verbs) != 0) {
            refused = verbs();
        } else {
            told =
                tiles_.for_each(group_, [&](const stream_tile& tile) { use(tile, at_++); }, args_.timeout_ns);
        }
        const status left = tiles_.detach(group_);
        if (group_.thread_rank() == 0) {
            note_->told = told.bits;
            note_->loads = tiles_.loads();
            note_->reuses = tiles_.reuses();
            note_->refused = refused;
            note_->left = left.bits;
        }
    }

  private:
    // Every call that can be made at a time is made, as far ahead as may be; all others are refused.
    WARPBELL_D uint32_t verbs() {
        uint32_t bad = 0;
        const uint32_t end = (args_.flags & leaves_early) != 0 ? steps_ / 2u : steps_;
        bad += tiles_.consumer_wait(group_).result().is(code::invalid_field) ? 0 : 1u;
        bad += tiles_.producer_commit(group_).is(code::invalid_field) ? 0 : 1u;
        bad += tiles_.consumer_release(group_).is(code::invalid_field) ? 0 : 1u;
        while (at_ < end) {
            const uint32_t first = at_;
            bad += (args_.flags & waits_ahead) != 0 ? hold<Stages>(end) : hold<1>(end);
            for (uint32_t at = first; at < at_; ++at) {
                bad += tiles_.consumer_release(group_).ok() ? 0 : 1u;
            }
        }
        return bad;
    }

    // Waits for as many tiles, and looks at each when all are there.
    template <uint32_t Left> WARPBELL_D uint32_t hold(uint32_t end) {
        uint32_t bad = 0;
        if (at_ == end) {
            return bad;
        }
        status may = tiles_.producer_acquire(group_);
        for (; may.ok(); may = tiles_.producer_acquire(group_)) {
            bad += tiles_.producer_commit(group_, args_.timeout_ns).ok() ? 0 : 1u;
        }
        bad += may.is(code::no_room) || may.is(code::out_of_range) ? 0 : 1u;
        const uint32_t at = at_++;
        const stream_tile tile = tiles_.consumer_wait(group_, args_.timeout_ns);
        if constexpr (Left > 1) {
            bad += hold<Left - 1>(end);
        } else if ((args_.flags & waits_ahead) != 0) {
            const bool more = tiles_.loads() + tiles_.reuses() > at_;
            const status one_more = tiles_.consumer_wait(group_).result();
            bad += one_more.is(more ? code::no_room : code::invalid_field) ? 0 : 1u;
        }
        use(tile, at);
        return bad;
    }

    // The thread that is alone with its words: rows follow each other in the tile.
    WARPBELL_D uint32_t wrong_words(const stream_tile& tile) const {
        const warpbell_tile_step& step = tile.step();
        uint32_t wrong = 0;
        for (uint32_t i = group_.thread_rank(); i < tile.bytes() / 8u; i += group_.size()) {
            const uint32_t block = i / words_;
            const uint64_t lba =
                step.first_block + block / step.blocks * step.row_stride + block % step.blocks;
            wrong += tile.template data<uint64_t>()[i] != content(args_.seed, lba, i % words_) ? 1u : 0;
        }
        return wrong;
    }

    WARPBELL_D void use(const stream_tile& tile, uint32_t at) const {
        const uint64_t begin = port::clock_ns();
        const uint32_t wrong = tile ? wrong_words(tile) : 0;
        while (tile && port::clock_ns() - begin < args_.compute_ns) {
            port::pause();
        }
        const this_warp_t warp;
        const uint32_t all = sum(warp, wrong);
        if (warp.is_leader()) {
            tile_record* record = records_ + at;
            port::add_relaxed_gpu(&record->answers, 1u);
            port::add_relaxed_gpu(&record->wrong, all);
            if (group_.thread_rank() == 0) {
                record->tile = tile.number();
                record->status = tile.result().bits;
                record->begin_ns = begin;
                record->end_ns = port::clock_ns();
            }
        }
        warp.sync();
    }

    WARPBELL_D static uint32_t sum(const this_warp_t& warp, uint32_t value) {
        uint32_t total = 0;
        for (uint32_t lane = 0; lane < WARPBELL_WARP_LANES; ++lane) {
            total += static_cast<uint32_t>(warp.from(lane, static_cast<uint64_t>(value)));
        }
        return total;
    }

    const stream_args& args_;
    const Group& group_;
    Tiles& tiles_;
    const uint32_t words_, steps_;
    tile_record* records_;
    tile_note* note_;
    uint32_t at_ = 0;
};

template <sharing Mode, uint32_t Slots, uint32_t Stages, class Schedule, class Group>
WARPBELL_D void stream(const stream_args& args, const Schedule& schedule, const Group& group,
                       uint32_t index) {
    const uint32_t warps = port::block_threads() / WARPBELL_WARP_LANES;
    session<Mode> ssd(this_warp(), args.ns,
                      port::block_index() * warps + port::thread_index() / WARPBELL_WARP_LANES);
    using tiles_type = tile_stream<session<Mode>, Slots, Stages, Schedule>;
    const uint64_t slot = schedule.slot_bytes(), ring = Slots * slot;
    const uint64_t missing = args.shape == 12 ? slot : 0; // of the ring: its buffer goes on
    tiles_type tiles(group, schedule, ssd, dma_span(args.ring).subspan(index * ring, ring - missing),
                     port::block_memory());
    streamer<Stages, tiles_type, Group>(args, group, tiles, ssd.block_bytes(), index, schedule.steps()).run();
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void run(const stream_args& args) {
    const this_block_t block = this_block();
    const listed_tiles listed(args.schedule);
    const uint32_t index = port::block_index();
    switch (args.shape) {
    case 3:
        return stream<Mode, 3, 3>(args, listed, block, index);
    case 4:
        return stream<Mode, 4, 2>(args, listed, block, index);
    case 9: {
        ruled_tiles tight = ruled_tiles::sequential(0, 6, 4, args.schedule.slot_bytes / 6u);
        tight.bytes /= 2u; // of a slot: less than a tile
        return stream<Mode, 2, 1>(args, tight, block, index);
    }
    case 10:
    case 11:
    case 12:
        return stream<Mode, 3, 3>(args, edited_tiles{listed, args.shape}, block, index);
#if !defined(STREAM_RULES_ONLY) // what each rule is tried with: compiled for each of them
    case 1:
        return stream<Mode, 1, 1>(args, listed, block, index);
    case 2:
        return stream<Mode, 2, 2>(args, listed, block, index);
    case 5:
        return stream<Mode, 3, 2>(args, listed, this_warp(), index);
    case 6:
        return stream<Mode, 3, 2>(
            args, ruled_tiles::matrix(8, 40, 2, 5, 4, 2, args.schedule.slot_bytes / 10u), block, index);
    case 7:
        return stream<Mode, 2, 1>(args, ruled_tiles::strided(3, 11, 6, 20, args.schedule.slot_bytes / 6u),
                                  block, index);
    case 8:
        return stream<Mode, 2, 2>(args, ruled_tiles::sequential(5, 6, 20, args.schedule.slot_bytes / 6u),
                                  block, index);
#endif
    }
}

} // namespace

WARPBELL_KERNEL(stream_test, stream_args) {
#if !defined(STREAM_RULES_ONLY)
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        return run<sharing::exclusive>(args);
    }
#endif
    run<sharing::shared>(args);
}

struct stream_volume_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref ring;
    warpbell_schedule_ref schedule;
    uint64_t notes; // of each thread: its sum, and what it was told
};

WARPBELL_KERNEL(stream_volume_test, stream_volume_args) {
    const this_block_t block = this_block();
    volume<sharing::shared, 4> v(this_warp(), args.volume, port::thread_index() / WARPBELL_WARP_LANES);
    tile_stream<decltype(v), 2, 2> tiles(block, listed_tiles(args.schedule), v, volume_span(args.ring),
                                         port::block_memory());
    uint64_t sum = 0;
    const status told = tiles.for_each(block, [&](const stream_tile& tile) {
        for (uint32_t i = block.thread_rank(); tile && i < tile.bytes() / 8u; i += block.size()) {
            sum += tile.data<uint64_t>()[i];
        }
    });
    uint64_t* note = reinterpret_cast<uint64_t*>(args.notes) + 2u * block.thread_rank();
    note[0] = sum;
    note[1] = told.bits | tiles.detach(block).bits;
    v.detach(this_warp());
}
