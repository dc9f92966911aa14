// cuda.h - CUDA's keywords and warp built-ins for device source that runs on the CPU.
//
// Device source sees CUDA's names with CUDA's meaning. What CUDA leaves undefined ends the launch with a text
// (see wb_simt_state), apart from the value a shuffle reads from a lane outside its group, which is
// 0xbad0bad0.... Only x is used of threadIdx, blockIdx, blockDim and gridDim.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#error "the CPU executor is for host compilers"
#endif

#include "memory.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

namespace [[gnu::visibility("hidden")]] simt {

SIMT_ENTRY uint32_t lane_index() { return running.lane->index; }
SIMT_ENTRY uint3 thread_index() { return {running.lane->thread, 0, 0}; }
SIMT_ENTRY uint3 block_index() { return running.lane->warp->block->index; }
SIMT_ENTRY dim3 block_size() { return {running.lane->worker->launch.block_x, 1, 1}; }
SIMT_ENTRY dim3 grid_size() { return {running.lane->worker->launch.grid_x, 1, 1}; }

uint32_t activemask(const char* file, uint32_t line);
void sync_threads();

// The width of a shuffle's segments, less one.
template <Op op> SIMT_ENTRY uint32_t segment_mask(int width, uint32_t mask) {
    const auto w = static_cast<uint32_t>(width);
    if (SIMT_UNLIKELY(w == 0 || w > warp_lanes || (w & (w - 1))))
        fail(*running.lane, Fault::bad_width, op, mask, w);
    return w - 1;
}

template <class T> SIMT_INLINE uint64_t to_bits(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "warp collectives take up to 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T> SIMT_INLINE T from_bits(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <Op op, class T> SIMT_INLINE T reduce(uint32_t mask, T value) {
    return static_cast<T>(meet<op>(mask, static_cast<uint32_t>(value), 0));
}

} // namespace simt

#define threadIdx (simt::thread_index())
#define blockIdx (simt::block_index())
#define blockDim (simt::block_size())
#define gridDim (simt::grid_size())
constexpr int warpSize = simt::warp_lanes;

SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { simt::meet<simt::Op::syncwarp>(mask, 0, 0); }
SIMT_INLINE void __syncthreads() { simt::sync_threads(); }
// Those lanes that have come to the same call once each lane of the warp ran as far as it could: the most a
// GPU could give. With a seed any part of them, as CUDA promises no more.
SIMT_INLINE unsigned __activemask(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return simt::activemask(file, line);
}
SIMT_INLINE void __nanosleep(unsigned ns) { simt::pause(ns); }
[[noreturn]] SIMT_INLINE void __trap() { simt::trap("__trap()"); }

SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return static_cast<unsigned>(simt::meet<simt::Op::ballot>(mask, predicate != 0, 0));
}
SIMT_INLINE int __any_sync(unsigned mask, int predicate) {
    return static_cast<int>(simt::meet<simt::Op::any>(mask, predicate != 0, 0));
}
SIMT_INLINE int __all_sync(unsigned mask, int predicate) {
    return static_cast<int>(simt::meet<simt::Op::all>(mask, predicate != 0, 0));
}

template <class T> SIMT_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    using namespace simt;
    const uint32_t segment = segment_mask<Op::shfl>(width, mask), lane = lane_index();
    const uint32_t from = (lane & ~segment) | (static_cast<uint32_t>(source) & segment);
    return from_bits<T>(meet<Op::shfl>(mask, to_bits(value), from));
}

template <class T> SIMT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    using namespace simt;
    const uint32_t segment = segment_mask<Op::shfl_up>(width, mask), lane = lane_index();
    const uint32_t from = (lane & segment) >= delta ? lane - delta : lane;
    return from_bits<T>(meet<Op::shfl_up>(mask, to_bits(value), from));
}

template <class T> SIMT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    using namespace simt;
    const uint32_t segment = segment_mask<Op::shfl_down>(width, mask), lane = lane_index();
    const uint32_t from = delta <= segment - (lane & segment) ? lane + delta : lane;
    return from_bits<T>(meet<Op::shfl_down>(mask, to_bits(value), from));
}

// As on the GPU, a lane may read from a segment before its own, but gets its own value for one after it.
template <class T> SIMT_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
    using namespace simt;
    const uint32_t segment = segment_mask<Op::shfl_xor>(width, mask), lane = lane_index();
    const uint32_t other = (lane ^ static_cast<uint32_t>(lane_mask)) & (warp_lanes - 1);
    const uint32_t from = other <= (lane | segment) ? other : lane;
    return from_bits<T>(meet<Op::shfl_xor>(mask, to_bits(value), from));
}

template <class T> SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return static_cast<unsigned>(simt::meet<simt::Op::match_any>(mask, simt::to_bits(value), 0));
}
template <class T> SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int* predicate) {
    const auto same = static_cast<unsigned>(simt::meet<simt::Op::match_all>(mask, simt::to_bits(value), 0));
    *predicate = same != 0;
    return same;
}

SIMT_INLINE unsigned __reduce_add_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::add>(mask, v);
}
SIMT_INLINE unsigned __reduce_min_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::min>(mask, v);
}
SIMT_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::max>(mask, v);
}
SIMT_INLINE int __reduce_add_sync(unsigned mask, int v) { return simt::reduce<simt::Op::add>(mask, v); }
SIMT_INLINE int __reduce_min_sync(unsigned mask, int v) {
    return simt::reduce<simt::Op::min_signed>(mask, v);
}
SIMT_INLINE int __reduce_max_sync(unsigned mask, int v) {
    return simt::reduce<simt::Op::max_signed>(mask, v);
}
SIMT_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::bit_and>(mask, v);
}
SIMT_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::bit_or>(mask, v);
}
SIMT_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned v) {
    return simt::reduce<simt::Op::bit_xor>(mask, v);
}

SIMT_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
SIMT_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
SIMT_INLINE int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }

SIMT_INLINE unsigned __brev(unsigned x) {
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}
SIMT_INLINE unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
           __brev(static_cast<unsigned>(x >> 32));
}
