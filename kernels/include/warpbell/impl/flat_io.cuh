// Sessions and I/O of the flat layer.
#pragma once

#include "flat.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace flat {

// Blocks and their data, as callers name them.
struct request {
    u64 block;
    u32 blocks;
    const warpbell_buffer_ref* buffer;
    u64 offset;
    u64 timeout_ns;

    WARPBELL_D extent where() const { return extent{lba(block), blocks}; }
    WARPBELL_D optional<extent> where_if_any() const {
        return blocks != 0 ? optional<extent>(where()) : optional<extent>();
    }
    template <sharing Mode> WARPBELL_D dma_span data(const session<Mode>& s) const {
        return span_of(buffer, offset, static_cast<u64>(blocks) * s.block_bytes());
    }
};

// Whether the reference may be attached to.
WARPBELL_D bool is_good(const warpbell_namespace_ref* ns, u32 warp) {
    return ns != nullptr && ns->abi_version == WARPBELL_ABI_VERSION && ns->size == sizeof(*ns) &&
           ns->queue_count != 0 && warp < ns->warps;
}

template <sharing Mode, class Group>
WARPBELL_D status make(const Group& group, session_head& head, const warpbell_namespace_ref& ns, u32 warp) {
    new (place{&head + 1}) session<Mode>(group, ns, warp);
    return head.as<Mode>().queue().refusal();
}

template <class Group>
WARPBELL_D u32 attach(const Group& group, owner by, warpbell_session* session,
                      const warpbell_namespace_ref* ns, u32 warp) {
    session_head& head = session_head::of(session);
    head.marked = 0;
    const bool good = is_good(ns, warp);
    const u32 all = group.ballot(good);
    const u32 shared = group.ballot(good && ns->sharing == WARPBELL_SHARING_SHARED);
    const bool is_another = by == owner::thread && port::lane() != 0;
    if (all != group.mask() || (shared != 0 && shared != all) || (is_another && shared == 0)) {
        return status(code::invalid_field).bits;
    }
    head.by = by;
    head.mode = shared != 0 ? sharing::shared : sharing::exclusive;
    head.marked = session_head::mark;
    return (shared != 0 ? make<sharing::shared>(group, head, *ns, warp)
                        : make<sharing::exclusive>(group, head, *ns, warp))
        .bits;
}

// Keeps a token that a call returned. Success: it is in flight, or there was nothing to begin.
WARPBELL_D status keep(warpbell_token* to, const io_token& token) {
    *to = token.bits();
    return token.in_flight() ? status() : token.refusal();
}
// The same for one I/O of a warp: what kept any lane's part from beginning, in every lane.
WARPBELL_D status keep_part(const this_warp_t& warp, warpbell_token* to, const io_token& token) {
    const status mine = keep(to, token);
    const u32 failed = warp.ballot(!mine.ok());
    const u64 first = failed != 0 ? warp.from(port::lowest(failed), mine.bits) : 0;
    return status::from_bits(static_cast<u32>(first));
}
// Takes it back: an empty one is left.
WARPBELL_D io_token take(warpbell_token* from) {
    io_token token = io_token::from_bits(*from);
    *from = io_token().bits();
    return token;
}

// This lane's answer, if it has come; its token is consumed then.
template <class Group, sharing Mode>
WARPBELL_D optional<status> look(const Group& group, session<Mode>& s, warpbell_token* kept) {
    (void)s.queue().reap(group);
    io_token token = take(kept);
    const optional<status> said = s.queue().try_wait(group, token);
    *kept = token.bits();
    return said;
}

WARPBELL_D status status_if(const optional<status>& said) {
    return said ? *said : status::from_bits(WARPBELL_PENDING);
}

// One answer of all lanes' commands. Those that come earlier are kept in their tokens.
template <sharing Mode>
WARPBELL_D status look_at_all(const this_warp_t& warp, session<Mode>& s, warpbell_token* kept) {
    if (const optional<status> said = look(warp, s, kept)) {
        *kept = (said->ok() ? io_token() : io_token::refused(*said)).bits();
    }
    if (warp.ballot(io_token::from_bits(*kept).in_flight()) != 0) {
        return status::from_bits(WARPBELL_PENDING);
    }
    return wait(warp, s, take(kept));
}

} // namespace flat
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

extern "C" {

WARPBELL_FLAT uint32_t warpbell_attach(warpbell_session* session, const warpbell_namespace_ref* ns,
                                       uint32_t warp) {
    using namespace warpbell;
    return flat::attach(this_thread(), flat::owner::thread, session, ns, warp);
}
WARPBELL_FLAT uint32_t warpbell_attach_warp(warpbell_session* session, const warpbell_namespace_ref* ns,
                                            uint32_t warp) {
    using namespace warpbell;
    return flat::attach(this_warp(), flat::owner::warp, session, ns, warp);
}
WARPBELL_FLAT uint32_t warpbell_detach(warpbell_session* session) {
    using namespace warpbell;
    return flat::by_owner(session, [&](const auto& group, auto& s) {
        using type = typename remove_reference<decltype(s)>::type;
        s.detach(group);
        s.~type();
        flat::session_head::of(session).marked = 0;
        return status();
    });
}
WARPBELL_FLAT uint32_t warpbell_switch_to_successor(warpbell_session* session, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_owner(
        session, [&](const auto& group, auto& s) { return s.switch_to_successor(group, timeout_ns); });
}

// Three functions for a read or a write that is waited for, three for one that is not: of one thread, of a
// warp, of each of its lanes.
#define WARPBELL_FLAT_CALLS(name)                                                                            \
    WARPBELL_FLAT uint32_t warpbell_##name(warpbell_session* session, uint64_t block, uint32_t blocks,       \
                                           const warpbell_buffer_ref* buffer, uint64_t offset,               \
                                           uint64_t timeout_ns) {                                            \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_thread(session, [&](const this_thread_t&, auto& s) {                                 \
            return warpbell::name(s, of.where(), of.data(s), of.timeout_ns);                                 \
        });                                                                                                  \
    }                                                                                                        \
    WARPBELL_FLAT uint32_t warpbell_##name##_warp(warpbell_session* session, uint64_t block,                 \
                                                  uint32_t blocks, const warpbell_buffer_ref* buffer,        \
                                                  uint64_t offset, uint64_t timeout_ns) {                    \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {                                \
            return warpbell::name(warp, s, of.where(), of.data(s), of.timeout_ns);                           \
        });                                                                                                  \
    }                                                                                                        \
    WARPBELL_FLAT uint32_t warpbell_##name##_each(warpbell_session* session, uint64_t block,                 \
                                                  uint32_t blocks, const warpbell_buffer_ref* buffer,        \
                                                  uint64_t offset, uint64_t timeout_ns) {                    \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {                                \
            return warpbell::name##_each(warp, s, of.where_if_any(), of.data(s), of.timeout_ns);             \
        });                                                                                                  \
    }                                                                                                        \
    WARPBELL_FLAT uint32_t warpbell_##name##_async(                                                          \
        warpbell_session* session, warpbell_token* token, uint64_t block, uint32_t blocks,                   \
        const warpbell_buffer_ref* buffer, uint64_t offset, uint64_t timeout_ns) {                           \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_thread(session, [&](const this_thread_t&, auto& s) {                                 \
            return flat::keep(token, warpbell::name##_async(s, of.where(), of.data(s), of.timeout_ns));      \
        });                                                                                                  \
    }                                                                                                        \
    WARPBELL_FLAT uint32_t warpbell_##name##_async_warp(                                                     \
        warpbell_session* session, warpbell_token* token, uint64_t block, uint32_t blocks,                   \
        const warpbell_buffer_ref* buffer, uint64_t offset, uint64_t timeout_ns) {                           \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {                                \
            return flat::keep_part(warp, token,                                                              \
                                   warpbell::name##_async(warp, s, of.where(), of.data(s), of.timeout_ns));  \
        });                                                                                                  \
    }                                                                                                        \
    WARPBELL_FLAT uint32_t warpbell_##name##_async_each(                                                     \
        warpbell_session* session, warpbell_token* token, uint64_t block, uint32_t blocks,                   \
        const warpbell_buffer_ref* buffer, uint64_t offset, uint64_t timeout_ns) {                           \
        using namespace warpbell;                                                                            \
        const flat::request of = {block, blocks, buffer, offset, timeout_ns};                                \
        return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {                                \
            return flat::keep(                                                                               \
                token, warpbell::name##_each_async(warp, s, of.where_if_any(), of.data(s), of.timeout_ns));  \
        });                                                                                                  \
    }
WARPBELL_FLAT_CALLS(read)
WARPBELL_FLAT_CALLS(write)
#undef WARPBELL_FLAT_CALLS

WARPBELL_FLAT uint32_t warpbell_flush(warpbell_session* session, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_thread(session,
                           [&](const this_thread_t&, auto& s) { return warpbell::flush(s, timeout_ns); });
}
WARPBELL_FLAT uint32_t warpbell_flush_warp(warpbell_session* session, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(
        session, [&](const this_warp_t& warp, auto& s) { return warpbell::flush(warp, s, timeout_ns); });
}
WARPBELL_FLAT uint32_t warpbell_flush_async(warpbell_session* session, warpbell_token* token,
                                            uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_thread(session, [&](const this_thread_t&, auto& s) {
        return flat::keep(token, warpbell::flush_async(s, timeout_ns));
    });
}
WARPBELL_FLAT uint32_t warpbell_flush_async_warp(warpbell_session* session, warpbell_token* token,
                                                 uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return flat::keep_part(warp, token, warpbell::flush_async(warp, s, timeout_ns));
    });
}

WARPBELL_FLAT uint32_t warpbell_wait(warpbell_session* session, warpbell_token* token, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_thread(session, [&](const this_thread_t&, auto& s) {
        return warpbell::wait(s, flat::take(token), timeout_ns);
    });
}
WARPBELL_FLAT uint32_t warpbell_wait_warp(warpbell_session* session, warpbell_token* token,
                                          uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return warpbell::wait(warp, s, flat::take(token), timeout_ns);
    });
}
WARPBELL_FLAT uint32_t warpbell_wait_each(warpbell_session* session, warpbell_token* token,
                                          uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return warpbell::wait_each(warp, s, flat::take(token), timeout_ns);
    });
}

WARPBELL_FLAT uint32_t warpbell_try_wait(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_thread(session, [&](const this_thread_t& thread, auto& s) {
        return flat::status_if(flat::look(thread, s, token));
    });
}
WARPBELL_FLAT uint32_t warpbell_try_wait_warp(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_warp(session,
                         [&](const this_warp_t& warp, auto& s) { return flat::look_at_all(warp, s, token); });
}
WARPBELL_FLAT uint32_t warpbell_try_wait_each(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return flat::status_if(flat::look(warp, s, token));
    });
}

WARPBELL_FLAT uint32_t warpbell_cancel(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_thread(session, [&](const this_thread_t& thread, auto& s) {
        return warpbell::cancel_each(thread, s, flat::take(token));
    });
}
WARPBELL_FLAT uint32_t warpbell_cancel_warp(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return warpbell::cancel(warp, s, flat::take(token));
    });
}
WARPBELL_FLAT uint32_t warpbell_cancel_each(warpbell_session* session, warpbell_token* token) {
    using namespace warpbell;
    return flat::by_warp(session, [&](const this_warp_t& warp, auto& s) {
        return warpbell::cancel_each(warp, s, flat::take(token));
    });
}

WARPBELL_DEVICE uint32_t warpbell_status_ok(uint32_t status) { return status == 0; }
WARPBELL_DEVICE uint32_t warpbell_status_retryable(uint32_t status) {
    return warpbell::status::from_bits(status).retryable();
}
WARPBELL_DEVICE uint32_t warpbell_status_buffer_in_use(uint32_t status) {
    return warpbell::status::from_bits(status).buffer_in_use();
}

} // extern "C"
