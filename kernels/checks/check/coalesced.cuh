// Neighbouring requests of a warp as fewer commands.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Each lane has a block behind that of the lane before it. Then every fourth lane has none: what is left are
// eight runs of three. Then each lane has a buffer reference of its own, in the same variable: those of the
// first 16 lanes are alike, and so are the others.
template <sharing Mode> class coalesced_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit coalesced_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            WARPBELL_NO_UNROLL
            for (u32 phase = 0; phase < 3u; ++phase) {
                there_and_back(phase, 1u + 3u * round + phase);
            }
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_;

    // Up to the block of lane 16, or all.
    WARPBELL_D warpbell_buffer_ref own_reference() const {
        warpbell_buffer_ref own = this->args_.buffer;
        if (port::lane() < 16u) {
            own.bytes = this->data(16).offset();
        }
        return own;
    }

    WARPBELL_D void there_and_back(u32 phase, u32 version) {
        const this_warp_t warp;
        const u32 lane = port::lane(), step = 3u * phase;
        const bool mine = phase != 1u || lane % 4u != 0;
        optional<extent> where;
        if (mine) {
            where = this->blocks(lane);
        }
        const warpbell_buffer_ref own = own_reference();
        const dma_span all = this->data(lane);
        const dma_span data = phase != 2u ? all : dma_span(own).subspan(all.offset(), all.bytes());
        this->fill(lane, lane + 1u, 1, version);
        found_.told(step + 1u, run_coalesced(warp, s_, command::write(where, data)));
        this->fill(lane, lane + 1u, 1, this->zeros);
        found_.told(step + 2u, run_coalesced(warp, s_, command::read(where, data)));
        found_.saw(step + 3u, this->holds(lane, lane + 1u, 1, mine ? version : this->zeros));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
