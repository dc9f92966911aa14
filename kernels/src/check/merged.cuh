// Neighbouring requests of a warp as fewer commands.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Each lane has a block behind that of the lane before it. Then every fourth lane has none: what is left are
// eight runs of three.
template <sharing Mode> class merged_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit merged_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            there_and_back(1, true, 1u + 2u * round);
            there_and_back(4, port::lane() % 4u != 0, 2u + 2u * round);
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_;

    WARPBELL_D void there_and_back(u32 step, bool mine, u32 version) {
        const this_warp_t warp;
        const u32 lane = port::lane();
        optional<extent> where;
        if (mine) {
            where = this->blocks(lane);
        }
        this->fill(lane, lane + 1u, 1, version);
        found_.told(step, write_merged(warp, s_, where, this->data(lane)));
        this->fill(lane, lane + 1u, 1, this->zeros);
        found_.told(step + 1u, read_merged(warp, s_, where, this->data(lane)));
        found_.saw(step + 2u, this->holds(lane, lane + 1u, 1, mine ? version : this->zeros));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
