// Kernel `check_attach`: whether a lane that attaches and a host that gives the queue up see each other. One
// lane works alone; in each round, once `turn` says that it has begun, it says so in `begun`, attaches, and
// stays attached until the host has looked at its hazard slot. Then it leaves, and says in `seen` that it
// has. Nobody submits.
#include "abi_check.h"
#include "common.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

class newcomer {
  public:
    WARPBELL_D explicit newcomer(const warpbell_attach_check_args& args) : args_(args) {}

    WARPBELL_D void run() {
        if (port::lane() != 0) {
            return;
        }
        u32 round = 1;
        while (round <= args_.rounds && await(args_.turn, round) && attach(round)) {
            ++round;
        }
        warpbell_check_result result = {};
        result.done = round - 1u;
        result.failed = args_.rounds - (round - 1u);
        *reinterpret_cast<warpbell_check_result*>(args_.results) = result;
    }

  private:
    // False where the host did not look.
    WARPBELL_D bool attach(u32 round) const {
        port::store_relaxed_sys(reinterpret_cast<u32*>(args_.begun), round);
        bool looked;
        {
            const queue<sharing::shared> attached(
                this_thread_t(), *reinterpret_cast<const warpbell_queue_ref*>(args_.queue), 0);
            *reinterpret_cast<u32*>(args_.attached) = attached.refuses() ? 0 : round;
            looked = await(args_.looked, round);
        }
        port::store_release_sys(reinterpret_cast<u32*>(args_.seen), round);
        return looked;
    }

    // Until the host has stored the round's number. False if it says nothing for too long.
    WARPBELL_D bool await(u64 word, u32 round) const {
        const u64 end_ns = port::clock_ns() + args_.timeout_ns;
        while (port::load_acquire_sys(reinterpret_cast<const u32*>(word)) != round) {
            if (port::clock_ns() > end_ns) {
                return false;
            }
            port::pause();
        }
        return true;
    }

    const warpbell_attach_check_args& args_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(check_attach, warpbell_attach_check_args) { kernels::newcomer(args).run(); }
