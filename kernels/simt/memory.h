// memory.h - typed accesses to memory that other lanes, the host or a controller see.
//
// Each is a hook and the access itself, or the access through the store buffer in weak-memory mode. T is a
// trivially copyable scalar of 1, 2, 4 or 8 bytes, naturally aligned.
#pragma once

#include "hooks.h"

#include <cstring>
#include <type_traits>

namespace [[gnu::visibility("hidden")]] simt {

struct alignas(16) u32x4 {
    uint32_t x, y, z, w;
};

void weak_store(const volatile void* address, const void* value, uint32_t bytes, bool release);
void weak_load(const volatile void* address, void* value, uint32_t bytes);
void weak_before_rmw(const volatile void* address, uint32_t bytes, bool release);

constexpr int load_order(order o) {
    if (o == order::seq_cst)
        return __ATOMIC_SEQ_CST;
    const bool acquire = o == order::acquire || o == order::acq_rel || (SIMT_TSAN && o == order::fenced);
    return acquire ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
}

constexpr int store_order(order o) {
    if (o == order::seq_cst)
        return __ATOMIC_SEQ_CST;
    const bool release = o == order::release || o == order::acq_rel || (SIMT_TSAN && o == order::fenced);
    return release ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
}

constexpr int rmw_order(order o) {
    switch (o) {
    case order::acquire:
        return __ATOMIC_ACQUIRE;
    case order::release:
        return __ATOMIC_RELEASE;
    case order::acq_rel:
        return __ATOMIC_ACQ_REL;
    case order::seq_cst:
        return __ATOMIC_SEQ_CST;
    default:
        return SIMT_TSAN && o == order::fenced ? __ATOMIC_ACQ_REL : __ATOMIC_RELAXED;
    }
}

// A compare-and-swap that fails is a load.
constexpr int cas_failure_order(order o) { return o == order::release ? __ATOMIC_RELAXED : load_order(o); }

constexpr bool acquires(order o) { return o == order::acquire || o == order::seq_cst; }
constexpr bool releases(order o) { return o == order::release || o == order::acq_rel || o == order::seq_cst; }

#define SIMT_ACCESS inline __attribute__((always_inline))

// A device's write is no access of a program, so TSan would report a race where the protocol allows one.
#if SIMT_TSAN
template <class T> SIMT_NO_TSAN __attribute__((noinline)) T load_unseen(const T* address) {
    return *static_cast<const volatile T*>(address);
}
#else
template <class T> SIMT_ACCESS T load_unseen(const T* address) {
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}
#endif

template <class T> SIMT_ACCESS T load(const T* address, order o = order::relaxed, scope = scope::gpu) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a scalar of at most 8 bytes");
    T value;
    if (SIMT_UNLIKELY(enter_load(address, sizeof(T), acquires(o))))
        weak_load(address, &value, sizeof(T));
    else if (o == order::plain)
        value = *address;
    else if (o == order::speculative)
        value = load_unseen(address);
    else
        value = __atomic_load_n(address, load_order(o));
    return value;
}

template <class T>
SIMT_ACCESS void store(T* address, std::type_identity_t<T> value, order o = order::relaxed,
                       scope s = scope::gpu) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a scalar of at most 8 bytes");
    if (SIMT_UNLIKELY(enter_store(address, sizeof(T), releases(o) ? s : scope::block)))
        weak_store(address, &value, sizeof(T), releases(o));
    else if (o == order::plain)
        *address = value;
    else
        __atomic_store_n(address, value, store_order(o));
}

// 16 bytes as one access, not atomic: for queue entries, which a later release or doorbell publishes.
SIMT_ACCESS void store128(void* address, u32x4 value) {
    if (SIMT_UNLIKELY(enter_store(address, sizeof value)))
        weak_store(address, &value, sizeof value, false);
    else
        __builtin_memcpy(__builtin_assume_aligned(address, 16), &value, sizeof value);
}

SIMT_ACCESS u32x4 load128(const void* address) {
    u32x4 value;
    if (SIMT_UNLIKELY(enter_load(address, sizeof value)))
        weak_load(address, &value, sizeof value);
    else
        __builtin_memcpy(&value, __builtin_assume_aligned(address, 16), sizeof value);
    return value;
}

template <class T> SIMT_ACCESS void before_rmw(T* address, order o, scope s) {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "a 32- or 64-bit integer");
    if (SIMT_UNLIKELY(enter_rmw(address, sizeof(T), releases(o) ? s : scope::block)))
        weak_before_rmw(address, sizeof(T), releases(o));
}

// Returns the value found; it was replaced if it equals `expected`.
template <class T>
SIMT_ACCESS T cas(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> desired,
                  order o = order::acq_rel, scope s = scope::gpu) {
    before_rmw(address, o, s);
    T found = expected;
    const bool success =
        __atomic_compare_exchange_n(address, &found, desired, false, rmw_order(o), cas_failure_order(o));
    leave_rmw(address, sizeof(T), success);
    return found;
}

template <class T>
SIMT_ACCESS T exchange(T* address, std::type_identity_t<T> value, order o = order::acq_rel,
                       scope s = scope::gpu) {
    before_rmw(address, o, s);
    return __atomic_exchange_n(address, value, rmw_order(o));
}

template <class T>
SIMT_ACCESS T fetch_add(T* address, std::type_identity_t<T> value, order o = order::acq_rel,
                        scope s = scope::gpu) {
    before_rmw(address, o, s);
    return __atomic_fetch_add(address, value, rmw_order(o));
}

template <class T>
SIMT_ACCESS T fetch_or(T* address, std::type_identity_t<T> value, order o = order::acq_rel,
                       scope s = scope::gpu) {
    before_rmw(address, o, s);
    return __atomic_fetch_or(address, value, rmw_order(o));
}

template <class T>
SIMT_ACCESS T fetch_and(T* address, std::type_identity_t<T> value, order o = order::acq_rel,
                        scope s = scope::gpu) {
    before_rmw(address, o, s);
    return __atomic_fetch_and(address, value, rmw_order(o));
}

// Reductions: read-modify-writes that return nothing.
template <class Rmw> SIMT_ACCESS void reduce(Rmw perform) {
    reduce_only(true);
    perform();
    reduce_only(false);
}

template <class T> SIMT_ACCESS void add(T* address, std::type_identity_t<T> value, order o = order::relaxed) {
    reduce([=] { fetch_add(address, value, o); });
}

template <class T>
SIMT_ACCESS void replace(T* address, std::type_identity_t<T> value, order o = order::relaxed) {
    reduce([=] { exchange(address, value, o); });
}

template <class T>
SIMT_ACCESS void bit_or(T* address, std::type_identity_t<T> value, order o = order::relaxed) {
    reduce([=] { fetch_or(address, value, o); });
}

// A fence of the host processor. TSan models none (see order::fenced), and gcc refuses them under it.
SIMT_ACCESS void host_fence([[maybe_unused]] int memory_order) {
#if SIMT_TSAN
    __asm__ volatile("" ::: "memory");
#else
    __atomic_thread_fence(memory_order);
#endif
}

SIMT_ACCESS void fence(order o, scope s) {
    on_fence(o, s);
    host_fence(rmw_order(o));
}

} // namespace simt
