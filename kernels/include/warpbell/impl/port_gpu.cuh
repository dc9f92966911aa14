// The platform as an NVIDIA GPU: every access is one PTX instruction. Included by port.cuh only.
//
// Loads that poll words are relaxed, and a fence comes after success: an acquire load costs an L1 invalidate
// each time (CCTL.IVALL). A poll of the ring, by one group of a queue, acquires (queue_reap.cuh).
#pragma once

#include "../abi.h"

#define WARPBELL_D __device__ __forceinline__
#define WARPBELL_HD __host__ __device__ __forceinline__
// One copy in a kernel, however often it is called: what is rarely executed, or waits anyway. What it is
// given the address of lies in the lane's memory, and takes no registers.
#define WARPBELL_NOINLINE __device__ __noinline__
// Before a loop off the hot path: keeps the compiler from unrolling it.
#define WARPBELL_NO_UNROLL _Pragma("unroll 1")

namespace warpbell {
namespace port {

using u8 = unsigned char;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

// Polls for each reading of the clock, and of the host's state of the queue.
constexpr u32 polls_per_clock = 16;
WARPBELL_D constexpr u32 polls_per_state() { return 256; }
// Polls of one call of progress(), and how many of them the leader makes alone before its group does. A poll
// of a ring in host memory is a round trip over PCIe.
WARPBELL_D constexpr u32 polls_per_call() { return 16; }
WARPBELL_D constexpr u32 polls_alone() { return 1; }
WARPBELL_D constexpr bool collectives_are_dear() { return false; }
// The compiler knows that lanes are together behind a loop that ends by a ballot.
constexpr bool votes_keep_together = true;
// Completions that a thread alone loads together.
constexpr u32 entries_together = 4;
// Where less room than this is left, completions are reported at once.
constexpr u32 room_wanted = 8;

// ---- where this lane is ----------------------------------------------------------------------------

WARPBELL_D u32 lane() {
    u32 value;
    asm("mov.u32 %0, %%laneid;" : "=r"(value));
    return value;
}
// The lanes of the warp that come before this one, as a mask.
WARPBELL_D u32 lanes_below() {
    u32 value;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(value));
    return value;
}
WARPBELL_D u32 thread_index() { return threadIdx.x; }
WARPBELL_D u32 block_index() { return blockIdx.x; }
WARPBELL_D u32 block_threads() { return blockDim.x; }
// The same of all dimensions.
WARPBELL_D u32 block_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
WARPBELL_D u32 block_size() { return blockDim.x * blockDim.y * blockDim.z; }
WARPBELL_D u32 grid_blocks() { return gridDim.x; }
// The multiprocessor that this block runs on.
WARPBELL_D u32 multiprocessor() {
    u32 value;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
    return value;
}

// ---- warp collectives ------------------------------------------------------------------------------

WARPBELL_D u32 ballot(u32 mask, bool predicate) { return __ballot_sync(mask, predicate); }
WARPBELL_D u32 shuffle(u32 mask, u32 value, u32 from) {
    return __shfl_sync(mask, value, static_cast<int>(from));
}
WARPBELL_D u64 shuffle(u32 mask, u64 value, u32 from) {
    return __shfl_sync(mask, value, static_cast<int>(from));
}
// Lanes of `mask` with the same value.
WARPBELL_D u32 match(u32 mask, u32 value) { return __match_any_sync(mask, value); }
WARPBELL_D u32 match(u32 mask, u64 value) { return __match_any_sync(mask, value); }
WARPBELL_D void sync(u32 mask) { __syncwarp(mask); }
WARPBELL_D void sync_block() { __syncthreads(); }

WARPBELL_D u32 population(u32 bits) { return static_cast<u32>(__popc(static_cast<int>(bits))); }
// Index of the lowest set bit; bits != 0.
WARPBELL_D u32 lowest(u32 bits) { return static_cast<u32>(__ffs(static_cast<int>(bits)) - 1); }
// The same, or ~0 if there is none: what the instruction gives.
WARPBELL_D u32 lowest_if_any(u32 bits) { return lowest(bits); }
// Index of the highest set bit; value != 0.
WARPBELL_D u32 highest(u64 value) { return 63u - static_cast<u32>(__clzll(static_cast<long long>(value))); }
WARPBELL_D u64 multiply_high(u64 a, u64 b) { return __umul64hi(a, b); }

// Both halves as one value: by shifting, the low half of a value of which nothing is known is computed too.
WARPBELL_D u64 pair(u32 low, u32 high) {
    u64 value;
    asm("mov.b64 %0, {%1, %2};" : "=l"(value) : "r"(low), "r"(high));
    return value;
}
// The lowest `count` bits; count < 32.
WARPBELL_D u32 low_bits(u32 value, u32 count) {
    u32 bits;
    asm("szext.clamp.u32 %0, %1, %2;" : "=r"(bits) : "r"(value), "r"(count));
    return bits;
}

// The same value, of which the compiler knows nothing.
WARPBELL_D u32 opaque(u32 value) {
    asm("" : "+r"(value));
    return value;
}

// Keeps an object in the lane's memory, where it takes no registers: for what is rarely looked at.
template <class T> WARPBELL_D void keep_in_memory(T& object) { asm volatile("" : : "l"(&object) : "memory"); }

// One of two values, without a branch: the compiler would move what depends on `first` into two copies.
WARPBELL_D u32 select(bool first, u32 a, u32 b) {
    u32 v;
    asm("{\n\t"
        ".reg .pred first;\n\t"
        "setp.ne.u32 first, %3, 0;\n\t"
        "selp.b32 %0, %1, %2, first;\n\t"
        "}"
        : "=r"(v)
        : "r"(a), "r"(b), "r"(first ? 1u : 0u));
    return v;
}

// ---- memory ----------------------------------------------------------------------------------------

WARPBELL_D u32 load_relaxed_gpu(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D u64 load_relaxed_gpu(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
// A relaxed load of a word that an SSD may be writing: a later load tells whether it counts.
WARPBELL_D u32 load_speculative_gpu(const u32* p) { return load_relaxed_gpu(p); }
WARPBELL_D u64 load_speculative_gpu(const u64* p) { return load_relaxed_gpu(p); }
WARPBELL_D u64 load_acquire_gpu(const u64* p) {
    u64 v;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D u32 load_relaxed_sys(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D u64 load_relaxed_sys(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
// For the CPU target, which cannot see what overlaps.
WARPBELL_D void issued_with_last(bool) {}
WARPBELL_D u32 load_acquire_sys(const u32* p) {
    u32 v;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D u64 load_acquire_sys(const u64* p) {
    u64 v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D void store_relaxed_gpu(u32* p, u32 v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WARPBELL_D void store_relaxed_gpu(u64* p, u64 v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WARPBELL_D void store_release_gpu(u64* p, u64 v) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WARPBELL_D void store_relaxed_sys(u32* p, u32 v) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WARPBELL_D void store_release_sys(u32* p, u32 v) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
// Structs that an acquire has made visible, and that nobody writes meanwhile.
template <class T> WARPBELL_D void copy_struct(T& to, u64 from) {
    static_assert(sizeof(T) % 8u == 0 && alignof(T) == 8u, "copied in words of 64 bits");
    // A loop: in one piece it would take a register for each word.
    WARPBELL_NO_UNROLL
    for (u32 i = 0; i < sizeof(T) / 8u; ++i) {
        reinterpret_cast<u64*>(&to)[i] = reinterpret_cast<const u64*>(from)[i];
    }
}
template <class T> WARPBELL_D T load_struct(u64 address) { return *reinterpret_cast<const T*>(address); }
template <class T> WARPBELL_D const T& struct_at(u64 address) { return *reinterpret_cast<const T*>(address); }
WARPBELL_D void copy_word(u32* to, const u32* from) { *to = *from; }
WARPBELL_D void copy_word(u64* to, const u64* from) { *to = *from; }
// 16 bytes of a ring entry, 16-byte aligned.
WARPBELL_D void store_quad(u32* p, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}
// The same of an entry that another warp wrote: past the first-level cache.
WARPBELL_D void load_quad(const u32* p, u32& a, u32& b, u32& c, u32& d) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(p)
                 : "memory");
}
// The same in memory of any kind, a block's shared memory included.
WARPBELL_D u32 load_relaxed_any(const u32* p) {
    u32 v;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
WARPBELL_D void store_relaxed_any(u32* p, u32 v) {
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WARPBELL_D void store_quad_any(u32* p, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
WARPBELL_D void load_quad_any(const u32* p, u32& a, u32& b, u32& c, u32& d) {
    asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(p)
                 : "memory");
}
// The dynamic shared memory of this block, aligned to a line.
WARPBELL_D void* block_memory() {
    extern __shared__ __align__(128) unsigned char warpbell_block_memory[];
    return warpbell_block_memory;
}
// A doorbell register: exactly one 32-bit store, never combined, split or repeated.
WARPBELL_D void store_doorbell(u32* p, u32 v) {
#if defined(WARPBELL_NO_MMIO)
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#else
    asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#endif
}
// A register of a device, or a word of its memory, where it is wanted: exactly one 32-bit load. Else `other`.
WARPBELL_D u32 load_register_if(bool wanted, u64 address, u32 other) {
    asm volatile("{\n\t"
                 ".reg .pred wanted;\n\t"
                 "setp.ne.u32 wanted, %2, 0;\n\t"
#if defined(WARPBELL_NO_MMIO)
                 "@wanted ld.volatile.global.u32 %0, [%1];\n\t"
#else
                 "@wanted ld.mmio.relaxed.sys.global.u32 %0, [%1];\n\t"
#endif
                 "}"
                 : "+r"(other)
                 : "l"(address), "r"(wanted ? 1u : 0u)
                 : "memory");
    return other;
}
WARPBELL_D void store_sq_doorbell(u32* p, u32 v) { store_doorbell(p, v); }
WARPBELL_D void store_cq_doorbell(u32* p, u32 v) { store_doorbell(p, v); }
// A shadow doorbell: ordinary memory that the controller polls.
WARPBELL_D void store_shadow_doorbell(u32* p, u32 v) { store_relaxed_sys(p, v); }

// The fence of one lane on behalf of its group; the others' accesses are ordered by sync().
WARPBELL_D void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
WARPBELL_D void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// The one fence that also orders earlier stores before later loads.
WARPBELL_D void fence_sc_sys() { asm volatile("fence.sc.sys;" ::: "memory"); }
// A fence that every lane of a group executes in the same instruction; `first` is true in one lane.
WARPBELL_D void fence_sys_group(bool) { fence_sys(); }
WARPBELL_D void fence_gpu_group(bool) { fence_gpu(); }

// For what only lanes of this block see; every lane executes it.
WARPBELL_D void fence_block() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }

WARPBELL_D u64 cas_relaxed_gpu(u64* p, u64 expected, u64 desired) {
    u64 old;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}
WARPBELL_D u64 cas_acquire_gpu(u64* p, u64 expected, u64 desired) {
    u64 old;
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}
WARPBELL_D u64 cas_acq_rel_gpu(u64* p, u64 expected, u64 desired) {
    u64 old;
    asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}
WARPBELL_D u64 fetch_add_relaxed_gpu(u64* p, u64 v) {
    u64 old;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
WARPBELL_D u64 fetch_add_fenced_gpu(u64* p, u64 v) { return fetch_add_relaxed_gpu(p, v); }
WARPBELL_D u64 fetch_add_acq_rel_gpu(u64* p, u64 v) {
    u64 old;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
WARPBELL_D u64 fetch_add_acquire_gpu(u64* p, u64 v) {
    u64 old;
    asm volatile("atom.acquire.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
WARPBELL_D u64 exchange_acquire_gpu(u64* p, u64 v) {
    u64 old;
    asm volatile("atom.acquire.gpu.global.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
WARPBELL_D void or_relaxed_gpu(u64* p, u64 bits) {
    asm volatile("red.relaxed.gpu.global.or.b64 [%0], %1;" ::"l"(p), "l"(bits) : "memory");
}
WARPBELL_D void add_relaxed_gpu(u32* p, u32 v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WARPBELL_D void add_relaxed_gpu(u64* p, u64 v) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WARPBELL_D void add_release_gpu(u64* p, u64 v) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// Raises a word that only grows to `v`, relaxed. The caller has fenced, perhaps before it waited for the
// value that is there: a read-modify-write continues the release sequence of that one. By max, as no
// reduction exchanges.
WARPBELL_D void raise_fenced_gpu(u64* p, u64 v) {
    asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WARPBELL_D u32 cas_relaxed_sys(u32* p, u32 expected, u32 desired) {
    u32 old;
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}

// ---- copies into a block's shared memory, which go on by themselves --------------------------------

// What a copy completes on: an mbarrier, where there are any. In shared memory, each for one copy at a time.
struct alignas(16) copy_barrier {
    u64 words[4];
};

WARPBELL_D u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// By one thread, before the others know of it. `threads`: as many begin each copy together.
WARPBELL_D void copy_init(copy_barrier* barrier, [[maybe_unused]] u32 threads) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(threads)
                 : "memory");
#else
    barrier->words[0] = 0;
#endif
}
// By one thread, when no copy is on its way any more: the memory may be used for something else.
WARPBELL_D void copy_close([[maybe_unused]] copy_barrier* barrier) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}
// What this thread sees now, the copy that it begins next sees too: the copy engine's accesses are a proxy of
// their own.
WARPBELL_D void copy_order(copy_barrier*) {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}
// By all `threads`, of which this is number `rank`. `bytes`, `to` and `from`: multiples of 16.
WARPBELL_D void copy_begin([[maybe_unused]] copy_barrier* barrier, u32 rank, [[maybe_unused]] u32 threads,
                           void* to, const void* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    if (rank == 0) {
        const u32 at = shared_address(barrier);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(to)),
            "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(at)
            : "memory");
    }
#elif __CUDA_ARCH__ >= 800
    const u32 base = shared_address(to);
    const u64 source = __cvta_generic_to_global(from);
    for (u32 i = rank * 16u; i < bytes; i += threads * 16u) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base + i), "l"(source + i) : "memory");
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
    for (u32 i = rank * 4u; i < bytes / 4u; i += threads * 4u) {
        u32 a, b, c, d;
        load_quad_any(static_cast<const u32*>(from) + i, a, b, c, d);
        store_quad_any(static_cast<u32*>(to) + i, a, b, c, d);
    }
#endif
}
// Whether the copy is done, of the barrier's copies the one with this parity: 0 of the first. Where no engine
// copies it is: of this thread's part, and the others' once the threads have met.
WARPBELL_D bool copy_is_done([[maybe_unused]] copy_barrier* barrier, u32, [[maybe_unused]] u32 parity) {
#if __CUDA_ARCH__ >= 800
    u32 done;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return done != 0;
#else
    return true;
#endif
}

// ---- time ------------------------------------------------------------------------------------------

// Nanoseconds, the same clock for the whole device.
WARPBELL_D u64 clock_ns() {
    u64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}
// In every loop that waits.
WARPBELL_D void pause() { asm volatile("nanosleep.u32 20;"); }
// The same of a lane whose last polls, so many and up to this, found nothing.
constexpr u32 longest_pause = 4;
WARPBELL_D void pause_longer(u32 polls) { asm volatile("nanosleep.u32 %0;" ::"r"(10u << polls)); }

// ---- what the CPU target counts; nothing here ------------------------------------------------------

WARPBELL_D void count_entry_written() {}
WARPBELL_D void count_entry_reaped() {}
WARPBELL_D void count_poll() {}
WARPBELL_D void count_word() {}
// Polls that this lane has counted; ~0 where nobody counts.
WARPBELL_D u64 polls_of_lane() { return ~0ull; }

// ---- arithmetic that some platforms have an instruction for ----------------------------------------

// CRC-32C over 8 bytes, by tables[8][256].
WARPBELL_D u32 crc32c_word(const u32* tables, u32 crc, u64 word) {
    u64 v = word ^ crc;
    u32 result = 0;
#pragma unroll
    for (u32 byte = 0; byte < 8; ++byte) {
        result ^= tables[(7u - byte) * 256u + (static_cast<u32>(v >> (8u * byte)) & 255u)];
    }
    return result;
}

} // namespace port
} // namespace warpbell

// Blocks of WARPBELL_BLOCK_THREADS_MAX threads that a multiprocessor is to hold at once, of each kernel that
// is defined in the file: a thread has 65,536 / 256 / this registers, 255 at most. With 4 it has 64, with 8
// 32; what the compiler then keeps in memory is mostly needed by what is not inlined (WARPBELL_NOINLINE).
#if !defined(WARPBELL_MIN_BLOCKS)
#define WARPBELL_MIN_BLOCKS 1
#endif

// A kernel that takes its argument struct by value.
// What the launcher compares, interface version and size of the arguments, lies beside it in its module.
#define WARPBELL_KERNEL(name, args_type)                                                                     \
    extern "C" __device__ uint32_t warpbell_kernel_##name[2] = {WARPBELL_ABI_VERSION, sizeof(args_type)};    \
    extern "C" __global__ void __launch_bounds__(WARPBELL_BLOCK_THREADS_MAX, WARPBELL_MIN_BLOCKS)            \
        name(const __grid_constant__ args_type args)
