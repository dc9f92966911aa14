// Kernel `check_port`: what port.cuh says of its accesses. What locks guard is read and written by plain
// loads and stores, so that only acquires, releases and fences order it.
#include "abi_check.h"
#include "check/warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

class port_checker {
  public:
    WARPBELL_D explicit port_checker(const warpbell_port_check_args& args)
        : args_(args), end_ns_(port::clock_ns() + args.timeout_ns) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        for (u32 round = 0; round < args_.rounds && warp.ballot(!seen_.good()) == 0; ++round) {
            if (warp.is_leader()) {
                take_locks();
                take_turns(round);
            }
            warp.sync();
            const u32 bit = port::thread_index() + port::block_index() * port::block_threads();
            port::add_relaxed_gpu(word(WARPBELL_PORT_SUM), static_cast<u64>(1));
            port::add_relaxed_gpu(reinterpret_cast<u32*>(word(WARPBELL_PORT_SHORT_SUM)), 1u);
            port::or_relaxed_gpu(word(WARPBELL_PORT_BITS + round), 1ull << (bit & 63u));
        }
        seen_.report(args_.results);
    }

  private:
    WARPBELL_D u64* word(u32 index) const { return reinterpret_cast<u64*>(args_.words) + index; }
    WARPBELL_D u64* lock(u32 number) const { return word(number * WARPBELL_PORT_LINE); }

    WARPBELL_D void take_locks() {
        u64* by_compare = lock(0);
        if (await([&] { return port::cas_acquire_gpu(by_compare, 0, 1) == 0; })) {
            count(by_compare);
            port::store_release_gpu(by_compare, 0);
        }
        u64* by_exchange = lock(1);
        if (await([&] { return port::exchange_acquire_gpu(by_exchange, 1) == 0; })) {
            count(by_exchange);
            port::fence_gpu();
            port::store_relaxed_gpu(by_exchange, 0);
        }
        u64* by_both = lock(2);
        if (await([&] { return port::cas_acq_rel_gpu(by_both, 0, 1) == 0; })) {
            count(by_both);
            (void)port::fetch_add_acq_rel_gpu(by_both, ~0ull);
        }
    }

    // One warp after the other, by its number.
    WARPBELL_D void take_turns(u32 round) {
        const u64 turn = static_cast<u64>(round) * warps_of_launch() + warp_number();
        u64* by_acquire = lock(3);
        if (await([&] { return port::load_acquire_gpu(by_acquire) == turn; })) {
            count(by_acquire);
            port::store_release_gpu(by_acquire, turn + 1u);
        }
        u64* by_fence = lock(4);
        if (await([&] { return port::load_relaxed_gpu(by_fence) == turn; })) {
            port::fence_gpu();
            count(by_fence);
            port::fence_gpu();
            port::store_relaxed_gpu(by_fence, turn + 1u);
        }
    }

    // By the lock's holder: both words beside it say how many held it before.
    WARPBELL_D void count(u64* lock) {
        const u64 before = lock[1];
        lock[1] = before + 1u;
        seen_.saw(static_cast<u32>(lock - word(0)), lock[2] == before);
        lock[2] = before + 1u;
    }

    template <class Done> WARPBELL_D bool await(Done done) {
        while (!done()) {
            if (port::clock_ns() > end_ns_) {
                seen_.told(0, code::timed_out);
                return false;
            }
            port::pause();
        }
        return true;
    }

    const warpbell_port_check_args& args_;
    const u64 end_ns_;
    findings seen_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(check_port, warpbell_port_check_args) { kernels::port_checker(args).run(); }
