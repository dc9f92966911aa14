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

    // An old word does not end it: others wait for this warp's turns.
    WARPBELL_D void run() {
        const this_warp_t warp;
        for (u32 round = 0; round < args_.rounds && warp.ballot(late_) == 0; ++round) {
            if (warp.is_leader()) {
                take_locks();
                take_turns(round);
                seen_.told(0, status());
            }
            warp.sync(); // all lanes add at the same time
            port::add_relaxed_gpu(word(WARPBELL_PORT_SUM), static_cast<u64>(1));
            port::add_relaxed_gpu(reinterpret_cast<u32*>(word(WARPBELL_PORT_SHORT_SUM)), 1u);
            const u32 of_block = round * port::grid_blocks() + port::block_index();
            port::or_relaxed_gpu(word(WARPBELL_PORT_BITS + of_block), 1ull << port::thread_index());
        }
        seen_.report(args_.results);
    }

  private:
    WARPBELL_D u64* word(u32 index) const { return reinterpret_cast<u64*>(args_.words) + index; }
    WARPBELL_D u64* lock(u32 number) const { return word(number * WARPBELL_PORT_LINE); }

    WARPBELL_D void take_locks() {
        u64* by_compare = lock(0);
        if (await(by_compare, [&] { return port::cas_acquire_gpu(by_compare, 0, 1) == 0; })) {
            count(by_compare);
            port::store_release_gpu(by_compare, 0);
        }
        u64* by_exchange = lock(1);
        if (await(by_exchange, [&] { return port::exchange_acquire_gpu(by_exchange, 1) == 0; })) {
            count(by_exchange);
            port::fence_gpu(); // the words before the lock that is free
            port::store_relaxed_gpu(by_exchange, 0);
        }
        u64* by_both = lock(2);
        if (await(by_both, [&] { return port::cas_acq_rel_gpu(by_both, 0, 1) == 0; })) {
            count(by_both);
            (void)port::fetch_add_acq_rel_gpu(by_both, ~0ull);
        }
        u64* by_sum = lock(5);
        if (await(by_sum, [&] { return first_of(by_sum); })) {
            count(by_sum);
            port::add_release_gpu(by_sum, ~0ull);
        }
    }

    // Whether nobody has added to the lock before; who comes later takes his one back.
    WARPBELL_D bool first_of(u64* lock) const {
        if (port::load_relaxed_gpu(lock) != 0) {
            return false;
        }
        const bool first = port::fetch_add_acquire_gpu(lock, 1) == 0;
        if (!first) {
            port::add_relaxed_gpu(lock, ~0ull);
        }
        return first;
    }

    // One warp after the other, by its number.
    WARPBELL_D void take_turns(u32 round) {
        const u64 turn = static_cast<u64>(round) * warps_of_launch() + warp_number();
        u64* by_acquire = lock(3);
        if (await(by_acquire, [&] { return port::load_acquire_gpu(by_acquire) == turn; })) {
            count(by_acquire);
            port::store_release_gpu(by_acquire, turn + 1u);
        }
        u64* by_fence = lock(4);
        if (await(by_fence, [&] { return port::load_relaxed_gpu(by_fence) == turn; })) {
            port::fence_gpu(); // the turn before the words
            count(by_fence);
            port::fence_gpu(); // the words before the next turn
            port::store_relaxed_gpu(by_fence, turn + 1u);
        }
    }

    // By the lock's holder: both words beside it say how many held it before.
    WARPBELL_D void count(u64* lock) {
        const u64 before = lock[1];
        lock[1] = before + 1u;
        seen_.saw(step_of(lock), lock[2] == before);
        lock[2] = before + 1u;
    }

    WARPBELL_D u32 step_of(u64* lock) const { return static_cast<u32>(lock - word(0)) / WARPBELL_PORT_LINE; }

    // False where the time for all of it is over.
    template <class Done> WARPBELL_D bool await(u64* lock, Done done) {
        while (!late_ && !done()) {
            if (port::clock_ns() > end_ns_) {
                seen_.told(step_of(lock), code::timed_out);
                late_ = true;
            }
            port::pause();
        }
        return !late_;
    }

    const warpbell_port_check_args& args_;
    const u64 end_ns_;
    bool late_ = false;
    findings seen_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(check_port, warpbell_port_check_args) { kernels::port_checker(args).run(); }
