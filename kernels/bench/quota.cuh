// A warp's part of the commands that a queue has outstanding.
#pragma once

#include "common.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Commands in flight per lane, at most; a lane's ids bound it too.
constexpr u32 slots_max = 32;
constexpr u32 no_slot = ~0u;

// How one warp's part of a queue's iodepth was cut: the first warps take the remainder.
struct quota {
    u32 commands, warps_here;
    // Of warp `warp` of `warps`, which take turns at `queues` queues.
    WARPBELL_D quota(u32 iodepth, u32 queues, u32 warp, u32 warps)
        : warps_here(warps / queues + (warp % queues < warps % queues ? 1u : 0u)) {
        const u32 slot = warp / queues;
        commands = iodepth / warps_here + (slot < iodepth % warps_here ? 1u : 0u);
    }
    // Of a launch whose arguments have a namespace and an iodepth.
    template <class Args>
    WARPBELL_D explicit quota(const Args& args)
        : quota(args.iodepth, args.ns.queue_count, warp_number(), warps_of_launch()) {}
    WARPBELL_D u32 lanes() const { return commands < WARPBELL_WARP_LANES ? commands : WARPBELL_WARP_LANES; }
    // How many lanes must be able to submit before the warp does: `asked`, as far as it has them; 0: one.
    WARPBELL_D u32 batch(u32 asked) const {
        const u32 n = asked < lanes() ? asked : lanes();
        return n ? n : 1u;
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
