// What lies in the opaque memory of the flat layer, and who may call.
#pragma once

#include "../outstanding.cuh"
#include "../warpbell_device.h"

// A function of the flat layer. Compiled once for all its callers, and called: it has the library's code for
// both kinds of queues in it. A part of one is called where that code is so long that a compiler would keep
// too much in registers.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define WARPBELL_FLAT WARPBELL_NOINLINE
#define WARPBELL_FLAT_PART WARPBELL_NOINLINE
#else
#define WARPBELL_FLAT __attribute__((noinline, visibility("default")))
#define WARPBELL_FLAT_PART __attribute__((noinline))
#endif

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace flat {

// Who attached.
enum class owner : u32 { nobody, thread, warp };

// The beginning of warpbell_session; a session<Mode> follows. The memory is the caller's, who may have stored
// words of 64 bits there, zeroes for example, so the head may alias anything. The session behind it is made
// in place, and only looked at as itself. Every call makes its pointer to it anew and is not inlined, so no
// old name stands for a new object.
struct __attribute__((may_alias, aligned(8))) session_head {
    static constexpr u32 mark = 0x5e55104eu;
    u32 marked;
    owner by;
    sharing mode;
    u32 pad0;

    WARPBELL_D static session_head* of(warpbell_session* session) {
        return reinterpret_cast<session_head*>(session);
    }
    WARPBELL_D bool is_shared() const { return mode == sharing::shared; }
    template <sharing Mode> WARPBELL_D session<Mode>& as() {
        return *reinterpret_cast<session<Mode>*>(this + 1);
    }
};

template <sharing Mode>
inline constexpr bool fits_session =
    sizeof(session_head) + sizeof(session<Mode>) <= sizeof(warpbell_session) && alignof(session<Mode>) <= 8u;
static_assert(fits_session<sharing::shared> && fits_session<sharing::exclusive>);

WARPBELL_D bool is_attached(const session_head* head) {
    return head != nullptr && head->marked == session_head::mark && head->by != owner::nobody;
}

// A thread may call: it has attached by itself, or the queue is anybody's.
WARPBELL_D bool may(const this_thread_t&, const session_head* head) {
    return is_attached(head) && (head->is_shared() || head->by == owner::thread);
}

// All lanes of the warp may call together, on queues of one kind. The same in every lane.
WARPBELL_D bool may(const this_warp_t& warp, const session_head* head) {
    const bool attached = is_attached(head) && head->by == owner::warp;
    const u32 shared = warp.ballot(attached && head->is_shared());
    return warp.ballot(!attached) == 0 && (shared == 0 || shared == warp.mask());
}

// use(group, session<Mode>&) -> status, in a call of the group.
template <class Group, class Use>
WARPBELL_D u32 by_group(const Group& group, warpbell_session* session, Use use) {
    session_head* const head = session_head::of(session);
    if (!may(group, head)) {
        return status(code::invalid_field).bits;
    }
    return (head->is_shared() ? use(group, head->as<sharing::shared>())
                              : use(group, head->as<sharing::exclusive>()))
        .bits;
}
template <class Use> WARPBELL_D u32 by_thread(warpbell_session* session, Use use) {
    return by_group(this_thread(), session, use);
}
template <class Use> WARPBELL_D u32 by_warp(warpbell_session* session, Use use) {
    return by_group(this_warp(), session, use);
}

// The same by those who attached.
template <class Use> WARPBELL_D u32 by_owner(warpbell_session* session, Use use) {
    const session_head* const head = session_head::of(session);
    const bool together = is_attached(head) && head->by == owner::warp;
    return together ? by_warp(session, use) : by_thread(session, use);
}

// Of a buffer, or of none: whatever uses it is refused then.
WARPBELL_D dma_span span_of(const warpbell_buffer_ref* buffer, u64 offset, u64 bytes) {
    return buffer != nullptr ? dma_span(*buffer).subspan(offset, bytes) : dma_span();
}

} // namespace flat
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
