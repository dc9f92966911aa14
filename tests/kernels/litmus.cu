// Kernel `litmus`: programs of a few accesses, of which all outcomes are known (queue.cuh has no part in
// them). Each block is one lane. x and y are 64-bit words at `records` and 64 bytes later; results follow,
// two for each lane.
#include "src/abi_check.h"
#include "src/common.cuh"

namespace kernels {

constexpr u32 store_buffering = 0;
constexpr u32 store_buffering_fenced = 1;
constexpr u32 message_passing = 2;
constexpr u32 message_passing_fenced = 3;
constexpr u32 message_passing_released = 4;
constexpr u32 load_buffering = 5;
constexpr u32 coherence = 6;
constexpr u32 two_writers = 7;
constexpr u32 independent_readers = 8;
constexpr u32 locked = 9;
constexpr u32 unlocked_early = 10;
constexpr u32 store_buffering_sequential = 11;

struct shared_words {
    u64 x, pad_x[7], y, pad_y[7];
    u64 results[8];
};

WARPBELL_D void add_under_lock(shared_words& at, bool early) {
    while (port::cas_acquire_gpu(&at.y, 0, 1) != 0) {
        port::pause();
    }
    const u64 x = port::load_relaxed_gpu(&at.x);
    port::store_relaxed_gpu(&at.x, x + 1u);
    if (early) {
        port::store_relaxed_gpu(&at.y, 0);
    } else {
        port::store_release_gpu(&at.y, 0);
    }
}

WARPBELL_D void send(shared_words& at, u32 mode) {
    port::store_relaxed_gpu(&at.x, 1);
    if (mode == message_passing_fenced) {
        port::fence_gpu();
    }
    if (mode == message_passing_released) {
        port::store_release_gpu(&at.y, 1);
    } else {
        port::store_relaxed_gpu(&at.y, 1);
    }
}

WARPBELL_D void run(shared_words& at, u32 lane, u32 mode) {
    u64* own = lane ? &at.y : &at.x;
    u64* other = lane ? &at.x : &at.y;
    u64* result = at.results + lane * 2u;
    switch (mode) {
    case store_buffering:
    case store_buffering_fenced:
    case store_buffering_sequential:
        port::store_relaxed_gpu(own, 1);
        if (mode == store_buffering_fenced) {
            port::fence_gpu();
        } else if (mode == store_buffering_sequential) {
            port::fence_sc_sys();
        }
        result[0] = port::load_relaxed_gpu(other);
        break;
    case message_passing:
    case message_passing_fenced:
    case message_passing_released:
        if (lane == 0) {
            send(at, mode);
        } else {
            result[0] = port::load_relaxed_gpu(&at.y);
            result[1] = port::load_relaxed_gpu(&at.x);
        }
        break;
    case load_buffering:
        result[0] = port::load_relaxed_gpu(own);
        port::store_relaxed_gpu(other, 1);
        break;
    case coherence:
        if (lane == 0) {
            port::store_relaxed_gpu(&at.x, 1);
            port::store_relaxed_gpu(&at.x, 2);
        } else {
            result[0] = port::load_relaxed_gpu(&at.x);
            result[1] = port::load_relaxed_gpu(&at.x);
        }
        break;
    case two_writers:
        port::store_relaxed_gpu(own, 1);
        port::store_relaxed_gpu(other, 2);
        break;
    case independent_readers:
        if (lane < 2) {
            port::store_relaxed_gpu(own, 1);
        } else {
            result[0] = port::load_relaxed_gpu(lane == 2 ? &at.x : &at.y);
            result[1] = port::load_relaxed_gpu(lane == 2 ? &at.y : &at.x);
        }
        break;
    default:
        add_under_lock(at, mode == unlocked_early);
    }
}

} // namespace kernels

WARPBELL_KERNEL(litmus, warpbell_queue_test_args) {
    kernels::run(*reinterpret_cast<kernels::shared_words*>(args.records), kernels::warp_number(), args.mode);
}
