// Kernel `check_stale`: whether data that somebody else wrote is there when what announces it is. One warp;
// in each round it waits until `turn` is the round's number, then looks at every word of the data, by loads
// that caches may serve, and answers in `seen`. Before it looks: in odd rounds a fence, in even ones an
// acquire by each lane. The host writes data and turn, in one order or the other.
#include "abi_check.h"
#include "common.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

class order_watcher {
  public:
    WARPBELL_D explicit order_watcher(const warpbell_stale_check_args& args) : args_(args) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        const u64* data = reinterpret_cast<const u64*>(args_.data);
        u64 stale = 0;
        u32 round = 1;
        for (; round <= args_.rounds && warp.broadcast(warp.is_leader() ? await(round) : 0u) != 0; ++round) {
            warp.sync(); // the leader alone has seen the round, and a broadcast orders nothing
            if ((round & 1u) != 0) {
                port::fence_sys_group(warp.is_leader());
            } else {
                while (port::load_acquire_sys(reinterpret_cast<const u32*>(args_.turn)) != round) {
                    port::pause();
                }
            }
            for (u32 i = port::lane(); i < args_.words; i += WARPBELL_WARP_LANES) {
                stale += data[i] != round ? 1u : 0u;
            }
            // Plain, as data of a kernel's own is: the release is what the host waits for.
            reinterpret_cast<u64*>(args_.answer)[port::lane()] = round;
            warp.sync();
            if (warp.is_leader()) {
                port::store_release_sys(reinterpret_cast<u32*>(args_.seen), round);
            }
        }
        warpbell_check_result result = {};
        result.done = round - 1u;
        result.failed = args_.rounds - (round - 1u);
        result.wrong = sum(warp, stale);
        if (warp.is_leader()) {
            *reinterpret_cast<warpbell_check_result*>(args_.results) = result;
        }
    }

  private:
    // 1, or 0 if the host stops first, or says nothing for too long.
    WARPBELL_D u32 await(u32 round) const {
        const u64 end_ns = port::clock_ns() + args_.timeout_ns;
        while (port::load_relaxed_sys(reinterpret_cast<const u32*>(args_.turn)) != round) {
            if (port::clock_ns() > end_ns ||
                port::load_relaxed_sys(reinterpret_cast<const u32*>(args_.stop)) != 0) {
                return 0;
            }
            port::pause();
        }
        return 1;
    }

    const warpbell_stale_check_args& args_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(check_stale, warpbell_stale_check_args) { kernels::order_watcher(args).run(); }
