// Kernel `volume_test`: writes units of a volume, each with contents of its own, or reads and checks them,
// and notes what became of each unit.
#include <warpbell/warpbell.cuh>

using namespace warpbell;

struct volume_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer; // room for two units of each lane
    uint64_t records;                  // unit_record[units]
    uint64_t units;
    uint64_t seed;
    uint32_t unit_blocks;
    uint32_t writes;
    uint32_t whole; // one I/O for the warp, else one per lane
    uint32_t map;
};

struct unit_record {
    uint32_t answers;
    uint32_t status;
    uint32_t wrong; // words
    uint32_t again; // reads into another buffer
    uint64_t digest;
};

namespace {

// A mapping of one's own: everything by the last queue and from the last replica.
struct last_of_all {
    WARPBELL_D static uint32_t position(uint32_t warp, uint32_t queues) {
        return warp * queues + queues - 1u;
    }
    WARPBELL_D static uint32_t replica(const warpbell_volume_ref&, uint32_t from, uint32_t, uint64_t) {
        return port::highest(from);
    }
};

WARPBELL_D uint64_t content(const volume_args& args, uint64_t block, uint64_t word) {
    const uint64_t mixed = (args.seed + block) * 0x9e3779b97f4a7c15u + word * 0xbf58476d1ce4e5b9u;
    return mixed ^ mixed >> 29;
}

struct unit {
    uint64_t number, words_per_block, words;
    WARPBELL_D uint64_t expected(const volume_args& args, uint64_t word) const {
        return content(args, number * args.unit_blocks + word / words_per_block, word % words_per_block);
    }
};

template <class Volume> WARPBELL_D void run(const volume_args& args, Volume& v, uint32_t warp_index) {
    const this_warp_t warp;
    const uint32_t lane = args.whole != 0 ? 0 : port::lane();
    const uint64_t bytes = static_cast<uint64_t>(args.unit_blocks) * v.block_bytes();
    const uint32_t warps = port::grid_blocks() * (port::block_threads() / WARPBELL_WARP_LANES);
    const uint64_t lanes = args.whole != 0 ? 1u : WARPBELL_WARP_LANES;
    uint32_t slot = 0;
    for (uint64_t first = warp_index * lanes; first < args.units; first += warps * lanes) {
        const unit mine = {first + lane, v.block_bytes() / 8u, bytes / 8u};
        const bool speaks = mine.number < args.units && (args.whole == 0 || port::lane() == 0);
        optional<extent> where;
        if (mine.number < args.units) {
            where = extent{lba(mine.number * args.unit_blocks), args.unit_blocks};
        }
        unit_record* record = reinterpret_cast<unit_record*>(args.records) + mine.number;
        status said;
        uint32_t again = 0;
        for (bool more = true; more; ++again) {
            const uint64_t at = ((warp_index * 32u + lane) * 2u + slot) * bytes;
            const volume_span data = volume_span(args.buffer).subspan(at, bytes);
            uint64_t* words = data.template data<uint64_t>();
            for (uint64_t i = 0; speaks && i < mine.words; ++i) {
                words[i] = args.writes != 0 ? mine.expected(args, i) : 0;
            }
            warp.sync();
            const optional<extent> now = more ? where : optional<extent>();
            if (args.whole != 0) {
                said = args.writes != 0 ? write(warp, v, *now, data) : read(warp, v, *now, data);
            } else {
                said = args.writes != 0 ? write_each(warp, v, now, data) : read_each(warp, v, now, data);
            }
            for (uint64_t i = 0; speaks && args.writes == 0 && said.ok() && i < mine.words; ++i) {
                record->wrong += words[i] != mine.expected(args, i) ? 1u : 0u;
                record->digest = (record->digest ^ words[i]) * 0x100000001b3u;
            }
            // Somebody may still write there.
            const uint32_t lost = warp.ballot(where.has_value() && args.writes == 0 && said.buffer_in_use());
            more = lost != 0 && again == 0;
            slot ^= more ? 1u : 0u;
            if (more && speaks) {
                record->wrong = 0;
                record->digest = 0;
            }
        }
        if (speaks) {
            ++record->answers;
            record->status = said.bits;
            record->again = again - 1u;
        }
    }
    if (args.writes != 0) {
        (void)flush(warp, v);
    }
    v.detach(warp);
}

template <sharing Mode, class Map, class Retry = no_retry> WARPBELL_D void run_with(const volume_args& args) {
    const uint32_t warps = port::block_threads() / WARPBELL_WARP_LANES;
    const uint32_t warp = port::block_index() * warps + port::thread_index() / WARPBELL_WARP_LANES;
    volume<Mode, 4, Map, Retry> v(this_warp(), args.volume, warp);
    run(args, v, warp);
}

} // namespace

WARPBELL_KERNEL(volume_test, volume_args) {
    const auto* first = reinterpret_cast<const warpbell_volume_member*>(args.volume.members);
    if (first->ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        return args.map == 1 ? run_with<sharing::exclusive, hashed>(args)
                             : run_with<sharing::exclusive, round_robin>(args);
    }
    switch (args.map) {
    case 0:
        return run_with<sharing::shared, round_robin>(args);
    case 1:
        return run_with<sharing::shared, hashed>(args);
    case 2:
        return run_with<sharing::shared, by_cta>(args);
    case 3:
        return run_with<sharing::shared, nearest>(args);
    case 4:
        return run_with<sharing::shared, last_of_all>(args);
    default:
        return run_with<sharing::shared, round_robin, retry>(args);
    }
}
