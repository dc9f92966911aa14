// The platform as the CPU executor: every access is a hook of kernels/simt. Included by port.cuh only.
//
// Accesses that a fence orders are `fenced`: relaxed, but acquire or release under ThreadSanitizer,
// which does not see fences.
#pragma once

#include "../abi.h"
#include <simt/cuda.h>
#include <simt/module.h>

// Left to the compiler: inlining everything, as for the GPU, made compiling ten times slower.
#define WARPBELL_D inline
#define WARPBELL_HD inline
#define WARPBELL_NOINLINE inline
#define WARPBELL_NO_UNROLL
#define WARPBELL_PORT __forceinline__

namespace warpbell {
namespace port {

using u8 = unsigned char;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

#if defined(WARPBELL_SMALL_SCOPE)
// For checks that try every schedule: each poll is a call of its own and reads the clock, or none does, so
// that no counter of polls tells two waits apart that behave alike.
constexpr u32 polls_per_clock = WARPBELL_SMALL_SCOPE; // 1, or 0: time stands still
WARPBELL_PORT u32 polls_per_call() { return 1; }
WARPBELL_PORT u32 polls_alone() { return 1; }
WARPBELL_PORT bool collectives_are_dear() { return false; }
WARPBELL_PORT u32 polls_per_state() { return 1; }
constexpr u32 entries_together = 2;
constexpr u32 room_wanted = 1; // else rings of a few entries would never report late
constexpr u32 longest_pause = 1;
#else
// A poll costs a few nanoseconds here, and a warp collective some hundred: one lane polls for long. Where
// both take a GPU's time, as port_gpu.cuh has it.
constexpr u32 polls_per_clock = 16;
WARPBELL_PORT u32 polls_per_call() { return simt::is_charged() ? 16 : 1; }
WARPBELL_PORT u32 polls_alone() { return simt::is_charged() ? 1 : 32; }
// So that simulations meet a loss early and late.
WARPBELL_PORT u32 polls_per_state() { return simt::is_charged() ? 256 : polls_per_clock; }
// In real time, where the lanes of a warp take turns on one processor: a collective is a switch of stacks for
// each lane. Else lanes work together as on a GPU.
WARPBELL_PORT bool collectives_are_dear() { return simt::is_plain(); }
constexpr u32 entries_together = 4;
constexpr u32 room_wanted = 8;
constexpr u32 longest_pause = 4;
#endif

constexpr bool votes_keep_together = false; // nobody needs to know; a ballot costs some hundred nanoseconds

// ---- where this lane is ----------------------------------------------------------------------------

WARPBELL_PORT u32 lane() { return simt::lane_index(); }
// The lanes of the warp that come before this one, as a mask.
WARPBELL_PORT u32 lanes_below() { return (1u << simt::lane_index()) - 1u; }
WARPBELL_PORT u32 thread_index() { return threadIdx.x; }
WARPBELL_PORT u32 block_index() { return blockIdx.x; }
WARPBELL_PORT u32 block_threads() { return blockDim.x; }
// The same of all dimensions, of which there is one here.
WARPBELL_PORT u32 block_rank() { return thread_index(); }
WARPBELL_PORT u32 block_size() { return block_threads(); }
WARPBELL_PORT u32 grid_blocks() { return gridDim.x; }
// The multiprocessor that this block runs on: there is one.
WARPBELL_PORT u32 multiprocessor() { return 0; }

// ---- warp collectives ------------------------------------------------------------------------------

WARPBELL_PORT u32 ballot(u32 mask, bool predicate) { return __ballot_sync(mask, predicate); }
WARPBELL_PORT u32 shuffle(u32 mask, u32 value, u32 from) {
    return __shfl_sync(mask, value, static_cast<int>(from));
}
WARPBELL_PORT u64 shuffle(u32 mask, u64 value, u32 from) {
    return __shfl_sync(mask, value, static_cast<int>(from));
}
// Lanes of `mask` with the same value.
WARPBELL_PORT u32 match(u32 mask, u32 value) { return __match_any_sync(mask, value); }
WARPBELL_PORT u32 match(u32 mask, u64 value) { return __match_any_sync(mask, value); }
WARPBELL_PORT void sync(u32 mask) { __syncwarp(mask); }
WARPBELL_PORT void sync_block() { __syncthreads(); }

// Without an instruction for it, the compiler's own is a call.
WARPBELL_PORT u32 population(u32 bits) {
#if defined(__x86_64__) && !defined(__POPCNT__)
    bits -= bits >> 1 & 0x55555555u;
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return ((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
#else
    return static_cast<u32>(__builtin_popcount(bits));
#endif
}
// Index of the lowest set bit; bits != 0.
WARPBELL_PORT u32 lowest(u32 bits) { return static_cast<u32>(__builtin_ctz(bits)); }
// The same, or ~0 if there is none.
WARPBELL_PORT u32 lowest_if_any(u32 bits) { return bits != 0 ? lowest(bits) : ~0u; }
// Index of the highest set bit; value != 0.
WARPBELL_PORT u32 highest(u64 value) { return 63u - static_cast<u32>(__builtin_clzll(value)); }
WARPBELL_PORT u64 multiply_high(u64 a, u64 b) {
    __extension__ using u128 = unsigned __int128;
    return static_cast<u64>(static_cast<u128>(a) * b >> 64);
}

// Both halves as one value.
WARPBELL_PORT u64 pair(u32 low, u32 high) { return static_cast<u64>(high) << 32 | low; }
// The lowest `count` bits; count < 32.
WARPBELL_PORT u32 low_bits(u32 value, u32 count) { return value & ((1u << count) - 1u); }

// For the compiler of the GPU: the same value, of which it knows nothing.
WARPBELL_PORT u32 opaque(u32 value) { return value; }
template <class T> WARPBELL_PORT void keep_in_memory(T&) {}
WARPBELL_PORT u32 select(bool first, u32 a, u32 b) { return first ? a : b; }

// ---- memory ----------------------------------------------------------------------------------------

WARPBELL_PORT u32 load_relaxed_gpu(const u32* p) { return simt::load(p, simt::order::fenced); }
WARPBELL_PORT u64 load_relaxed_gpu(const u64* p) { return simt::load(p, simt::order::fenced); }
// A relaxed load of a word that an SSD may be writing: a later load tells whether it counts.
WARPBELL_PORT u32 load_speculative_gpu(const u32* p) { return simt::load(p, simt::order::speculative); }
WARPBELL_PORT u64 load_speculative_gpu(const u64* p) { return simt::load(p, simt::order::speculative); }
WARPBELL_PORT u64 load_acquire_gpu(const u64* p) { return simt::load(p, simt::order::acquire); }
WARPBELL_PORT u32 load_relaxed_sys(const u32* p) {
    return simt::load(p, simt::order::fenced, simt::scope::sys);
}
WARPBELL_PORT u64 load_relaxed_sys(const u64* p) {
    return simt::load(p, simt::order::fenced, simt::scope::sys);
}
// Whether the next loads were issued together with the last one, and wait for nothing of it.
WARPBELL_PORT void issued_with_last(bool on) { simt::overlap_loads(on); }
WARPBELL_PORT u32 load_acquire_sys(const u32* p) {
    return simt::load(p, simt::order::acquire, simt::scope::sys);
}
WARPBELL_PORT u64 load_acquire_sys(const u64* p) {
    return simt::load(p, simt::order::acquire, simt::scope::sys);
}
WARPBELL_PORT void store_relaxed_gpu(u32* p, u32 v) { simt::store(p, v, simt::order::fenced); }
WARPBELL_PORT void store_relaxed_gpu(u64* p, u64 v) { simt::store(p, v, simt::order::fenced); }
WARPBELL_PORT void store_release_gpu(u64* p, u64 v) { simt::store(p, v, simt::order::release); }
WARPBELL_PORT void store_relaxed_sys(u32* p, u32 v) {
    simt::store(p, v, simt::order::relaxed, simt::scope::sys);
}
WARPBELL_PORT void store_release_sys(u32* p, u32 v) {
    simt::store(p, v, simt::order::release, simt::scope::sys);
}
// A struct that an acquire has made visible, and that nobody writes meanwhile.
template <class T> WARPBELL_PORT void copy_struct(T& to, u64 from) { to = *reinterpret_cast<const T*>(from); }
template <class T> WARPBELL_PORT T load_struct(u64 address) { return *reinterpret_cast<const T*>(address); }
template <class T> WARPBELL_PORT const T& struct_at(u64 address) {
    return *reinterpret_cast<const T*>(address);
}
// A word of whatever type: the compiler takes it for none of those that the program reads and writes there.
WARPBELL_PORT void copy_word(u32* to, const u32* from) { __builtin_memcpy(to, from, sizeof(*to)); }
WARPBELL_PORT void copy_word(u64* to, const u64* from) { __builtin_memcpy(to, from, sizeof(*to)); }
// 16 bytes of a ring entry, 16-byte aligned.
WARPBELL_PORT void store_quad(u32* p, u32 a, u32 b, u32 c, u32 d) { simt::store128(p, {a, b, c, d}); }
// The same of an entry that another warp wrote.
WARPBELL_PORT void load_quad(const u32* p, u32& a, u32& b, u32& c, u32& d) {
    const simt::u32x4 quad = simt::load128(p);
    a = quad.x, b = quad.y, c = quad.z, d = quad.w;
}
// The same in memory of any kind, a block's shared memory included.
WARPBELL_PORT u32 load_relaxed_any(const u32* p) { return load_relaxed_gpu(p); }
WARPBELL_PORT void store_relaxed_any(u32* p, u32 v) { store_relaxed_gpu(p, v); }
WARPBELL_PORT void store_quad_any(u32* p, u32 a, u32 b, u32 c, u32 d) { store_quad(p, a, b, c, d); }
WARPBELL_PORT void load_quad_any(const u32* p, u32& a, u32& b, u32& c, u32& d) { load_quad(p, a, b, c, d); }
// The dynamic shared memory of this block, aligned to a line.
WARPBELL_PORT void* block_memory() { return simt::shared_memory(); }
// A doorbell register: exactly one 32-bit store.
WARPBELL_PORT void store_sq_doorbell(u32* p, u32 v) { simt::doorbell_store(p, v, simt::bell::sq); }
WARPBELL_PORT void store_cq_doorbell(u32* p, u32 v) { simt::doorbell_store(p, v, simt::bell::cq); }
// A register of a device, or a word of its memory, where it is wanted: exactly one 32-bit load. Else `other`.
WARPBELL_PORT u32 load_register_if(bool wanted, u64 address, u32 other) {
    return wanted ? simt::register_load(reinterpret_cast<const u32*>(address)) : other;
}
// A shadow doorbell: ordinary memory that the controller polls.
WARPBELL_PORT void store_shadow_doorbell(u32* p, u32 v) {
    simt::store(p, v, simt::order::fenced, simt::scope::sys);
    simt::count_shadow_store();
}

// The fence of one lane on behalf of its group; the others' accesses are ordered by sync().
WARPBELL_PORT void fence_sys() { simt::fence(simt::order::acq_rel, simt::scope::sys); }
WARPBELL_PORT void fence_gpu() { simt::fence(simt::order::acq_rel, simt::scope::gpu); }
// The one fence that also orders earlier stores before later loads.
WARPBELL_PORT void fence_sc_sys() { simt::fence(simt::order::seq_cst, simt::scope::sys); }
// A fence that every lane of a group executes in the same instruction; `first` is true in one lane,
// which counts it (block scope is not counted).
WARPBELL_PORT void fence_sys_group(bool first) {
    simt::fence(simt::order::acq_rel, first ? simt::scope::sys : simt::scope::block);
}
WARPBELL_PORT void fence_gpu_group(bool first) {
    simt::fence(simt::order::acq_rel, first ? simt::scope::gpu : simt::scope::block);
}

// For what only lanes of this block see; every lane executes it.
WARPBELL_PORT void fence_block() { simt::fence(simt::order::acq_rel, simt::scope::block); }

WARPBELL_PORT u64 cas_relaxed_gpu(u64* p, u64 expected, u64 desired) {
    return simt::cas(p, expected, desired, simt::order::relaxed);
}
WARPBELL_PORT u64 cas_acquire_gpu(u64* p, u64 expected, u64 desired) {
    return simt::cas(p, expected, desired, simt::order::acquire);
}
WARPBELL_PORT u64 cas_acq_rel_gpu(u64* p, u64 expected, u64 desired) {
    return simt::cas(p, expected, desired, simt::order::acq_rel);
}
WARPBELL_PORT u64 fetch_add_relaxed_gpu(u64* p, u64 v) { return simt::fetch_add(p, v, simt::order::relaxed); }
// Relaxed, right after a fence of the caller's: what was before that is seen by whoever reads this.
WARPBELL_PORT u64 fetch_add_fenced_gpu(u64* p, u64 v) { return simt::fetch_add(p, v, simt::order::fenced); }
// Sets a word that only grows to `v`, by a read-modify-write after a fence of the caller's: whoever reads
// this sees what was before that, and what was before the value that it takes the place of.
WARPBELL_PORT void raise_fenced_gpu(u64* p, u64 v) { simt::replace(p, v, simt::order::fenced); }
WARPBELL_PORT u64 fetch_add_acq_rel_gpu(u64* p, u64 v) { return simt::fetch_add(p, v, simt::order::acq_rel); }
WARPBELL_PORT u64 fetch_add_acquire_gpu(u64* p, u64 v) { return simt::fetch_add(p, v, simt::order::acquire); }
WARPBELL_PORT u64 exchange_acquire_gpu(u64* p, u64 v) { return simt::exchange(p, v, simt::order::acquire); }
WARPBELL_PORT void or_relaxed_gpu(u64* p, u64 bits) { simt::bit_or(p, bits); }
WARPBELL_PORT void add_relaxed_gpu(u32* p, u32 v) { simt::add(p, v); }
WARPBELL_PORT void add_relaxed_gpu(u64* p, u64 v) { simt::add(p, v); }
WARPBELL_PORT void add_release_gpu(u64* p, u64 v) { simt::add(p, v, simt::order::release); }
WARPBELL_PORT u32 cas_relaxed_sys(u32* p, u32 expected, u32 desired) {
    return simt::cas(p, expected, desired, simt::order::relaxed, simt::scope::sys);
}

// ---- copies into a block's shared memory, which go on by themselves --------------------------------

// As on a GPU a copy is begun, and its data is there once it was found to be done; here whoever began it
// copies when it polls. The end of what was not ordered before the copy is not seen by it.
struct alignas(16) copy_barrier {
    const u8* from;
    u8* to;
    u32 bytes; // of a copy on its way
    u32 ordered;
    u32 done; // copies
    u32 pad0;
};

WARPBELL_PORT void copy_init(copy_barrier* barrier, u32) { *barrier = copy_barrier{}; }
WARPBELL_PORT void copy_close(copy_barrier*) {}
WARPBELL_PORT void copy_order(copy_barrier* barrier) { barrier->ordered = 1; }
WARPBELL_PORT void copy_begin(copy_barrier* barrier, u32 rank, u32, void* to, const void* from, u32 bytes) {
    if (rank == 0) {
        barrier->from = static_cast<const u8*>(from);
        barrier->to = static_cast<u8*>(to);
        barrier->bytes = barrier->ordered != 0 ? bytes : bytes - 16u;
        barrier->ordered = 0;
    }
}
WARPBELL_PORT bool copy_is_done(copy_barrier* barrier, u32 rank, u32 parity) {
    if (rank == 0 && barrier->bytes != 0) {
        __builtin_memcpy(barrier->to, barrier->from, barrier->bytes);
        barrier->bytes = 0;
        simt::store(&barrier->done, barrier->done + 1u, simt::order::release);
    }
    return (simt::load(&barrier->done, simt::order::acquire) & 1u) != parity;
}

// ---- time ------------------------------------------------------------------------------------------

WARPBELL_PORT u64 clock_ns() { return simt::clock_ns(); }
// In every loop that waits.
WARPBELL_PORT void pause() { simt::pause(); }
// The same of a lane whose last polls, so many, found nothing: longer only where pauses take virtual time.
WARPBELL_PORT void pause_longer(u32 polls) { simt::pause((simt::shortest_pause_ns << polls) / 2); }

// ---- what the CPU target counts --------------------------------------------------------------------

WARPBELL_PORT void count_entry_written() { simt::count_sqe(1); }
WARPBELL_PORT void count_entry_reaped() { simt::count_cqe(1); }
WARPBELL_PORT void count_poll() { simt::count_poll(); }
WARPBELL_PORT void count_word() { simt::count_word(); }
// Polls that this lane has counted; ~0 where nobody counts.
WARPBELL_PORT u64 polls_of_lane() { return simt::polls_of_lane(); }

// ---- arithmetic that some platforms have an instruction for ----------------------------------------

// CRC-32C over 8 bytes, by tables[8][256].
WARPBELL_PORT u32 crc32c_word(const u32* tables, u32 crc, u64 word) {
    u64 v = word ^ crc;
    u32 result = 0;
    for (u32 byte = 0; byte < 8; ++byte) {
        result ^= tables[(7u - byte) * 256u + (static_cast<u32>(v >> (8u * byte)) & 255u)];
    }
    return result;
}

} // namespace port
} // namespace warpbell

#undef WARPBELL_PORT

// A kernel that takes a pointer to its argument struct, and lists itself for the launcher.
#define WARPBELL_KERNEL(name, args_type)                                                                     \
    static inline void name##_body(const args_type& args);                                                   \
    static void name##_untyped(const void* args) { name##_body(*static_cast<const args_type*>(args)); }      \
    static wb_simt_listed name##_listed(#name, name##_untyped, sizeof(args_type), WARPBELL_ABI_VERSION);     \
    static inline void name##_body(const args_type& args)
