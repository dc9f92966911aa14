// Where a warp of the protocol laboratory is: its queue, and its lanes among those that work there.
#pragma once

#include "../abi_lab.h"
#include "../common.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Warps of a queue follow each other, so that a block of threads is of one queue alone.
struct lab_place {
    u32 queue, slot, warps_here;
    u32 lanes; // of this warp that work, the first ones
    u32 first; // number of its first lane among those of its queue

    WARPBELL_D explicit lab_place(const warpbell_lab_args& args)
        : lab_place(args, warp_number() % args.warps) {}
    WARPBELL_D lab_place(const warpbell_lab_args& args, u32 warp) {
        const u32 depth = args.bench.iodepth;
        warps_here = args.warps / args.bench.ns.queue_count;
        queue = warp / warps_here;
        slot = warp % warps_here;
        const u32 even = depth / warps_here, more = depth % warps_here;
        lanes = even + (slot < more ? 1u : 0u);
        first = slot * even + (slot < more ? slot : more);
    }
    WARPBELL_D bool works() const { return port::lane() < lanes; }
    // Of this lane, if it works.
    WARPBELL_D u32 number() const { return first + port::lane(); }
    // The warp as session counts it: warps take queues in turn there.
    WARPBELL_D u32 session_warp(u32 queues) const { return slot * queues + queue; }
};

// How a launch's I/Os are dealt out: the same number to each lane, and the first ones take the remainder.
struct lab_portion {
    u64 each, more;
    u32 lanes; // of the launch

    WARPBELL_D explicit lab_portion(const warpbell_bench_args& args)
        : each(0), more(0), lanes(args.iodepth * args.ns.queue_count) {
        each = args.io_limit == 0 ? ~0ull : args.io_limit / lanes;
        more = args.io_limit == 0 ? 0 : args.io_limit % lanes;
    }
    // Of the lane with this number in the launch.
    WARPBELL_D u64 of(u64 number) const { return each + (number < more ? 1u : 0u); }
    // Of `count` lanes from `first` on: those that have more than `done`.
    WARPBELL_D u32 beyond(u64 done, u64 first, u32 count) const {
        if (done != each) {
            return done < each ? count : 0;
        }
        const u64 left = more > first ? more - first : 0;
        return left < count ? static_cast<u32>(left) : count;
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
