// Tiles that a block streams into its shared memory, of blocks that its warps have just written.
#pragma once

#include "warp.cuh"

#include <warpbell/stream.cuh>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Each tile has a row of each warp's blocks, so that every thread looks at what other warps wrote.
template <sharing Mode> class stream_check : check_warp<Mode> {
    using tiles_type = tile_stream<session<Mode>, 3, 2, ruled_tiles>;

  public:
    WARPBELL_D explicit stream_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()), of_block_(args, port::block_index() * warps_per_block()) {}

    WARPBELL_D void run() {
        u32* ends = static_cast<u32*>(port::block_memory());
        port::store_relaxed_any(ends, 0);
        this_block().sync();
        for (u32 round = 0; goes_on_together(round, ends); ++round) {
            write(1u + round);
            this_block().sync();
            stream(1u + round, ends + 32);
            this_block().sync();
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_;
    static constexpr u32 written = 64; // blocks of each warp
    static constexpr u32 across = 2;   // blocks of a row of a tile

    // Threads of a block wait for each other: all go on, or none does.
    WARPBELL_D bool goes_on_together(u32 round, u32* ends) const {
        if (!this->goes_on(round)) {
            port::store_relaxed_any(ends, 1);
        }
        this_block().sync();
        return port::load_relaxed_any(ends) == 0;
    }

    WARPBELL_D void write(u32 version) {
        const u32 own = 2u * port::lane();
        this->fill(own, own + 2u, 1, version);
        found_.told(1, write_each(this->warp_, s_, check_region::blocks(own, 2), this->data(own, 2)));
    }

    WARPBELL_D bool is_right(const stream_tile& tile, u32 version) const {
        const u32 words = s_.block_bytes() / 8u;
        bool right = true;
        for (u32 i = port::thread_index(); i < tile.bytes() / 8u; i += port::block_threads()) {
            const u32 place = i / words, warp = place / across;
            const u32 block =
                warp * WARPBELL_CHECK_WARP_BLOCKS + static_cast<u32>(tile.number()) * across + place % across;
            right = right && tile.template data<u64>()[i] == of_block_.content(block, i % words, version);
        }
        return right;
    }

    // The ring lies behind the written blocks.
    WARPBELL_D void stream(u32 version, void* shared) {
        const this_block_t block = this_block();
        const u32 rows = warps_per_block(), count = written / across;
        const ruled_tiles which =
            ruled_tiles::matrix(of_block_.blocks(0).start.value, WARPBELL_CHECK_WARP_BLOCKS, across, rows,
                                count, 1, s_.block_bytes());
        tiles_type tiles(block, which, s_, of_block_.data(written, 3u * rows * across), shared);
        const status all = tiles.for_each(block, [&](const stream_tile& tile) {
            found_.told(2, tile.result());
            found_.saw(3, tile && is_right(tile, version));
        });
        const status left = tiles.detach(block);
        found_.judge(4, all, all.ok() && left.ok() && tiles.loads() == count && tiles.reuses() == 0);
    }

    check_region of_block_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
