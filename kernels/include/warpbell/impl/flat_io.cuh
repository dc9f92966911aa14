// Sessions and I/O of the flat layer.
#pragma once

#include "flat.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace flat {

// A command, as callers name it.
struct request {
    opcode op;
    u64 block;
    u32 blocks;
    const warpbell_buffer_ref* buffer;
    u64 offset;
    u64 timeout_ns;
    u32 flags = 0;

    WARPBELL_D static request of(const warpbell_command& what, u64 timeout_ns) {
        // Not an opcode: refused, as dataset_management is.
        const bool fits = what.opcode <= 0xffu;
        const opcode op = fits ? static_cast<opcode>(what.opcode) : opcode::dataset_management;
        return {op, what.block, what.blocks, what.buffer, what.offset, timeout_ns, what.flags};
    }
    template <sharing Mode> WARPBELL_D command what(const session<Mode>& s) const {
        const bool moves = detail::for_blocks(op) && detail::carries_blocks(op);
        const u64 bytes = static_cast<u64>(blocks) * s.block_bytes();
        return {op, extent{lba(block), blocks}, moves ? span_of(buffer, offset, bytes) : dma_span(), flags};
    }
    // Nothing of no blocks.
    template <sharing Mode> WARPBELL_D command what_if_any(const session<Mode>& s) const {
        const bool is_none = blocks == 0 && op != opcode::flush;
        return is_none ? command{op, nullopt, dma_span(), 0} : what(s);
    }
};

static_assert(static_cast<u32>(opcode::flush) == WARPBELL_OPCODE_FLUSH &&
                  static_cast<u32>(opcode::write) == WARPBELL_OPCODE_WRITE &&
                  static_cast<u32>(opcode::read) == WARPBELL_OPCODE_READ &&
                  static_cast<u32>(opcode::compare) == WARPBELL_OPCODE_COMPARE &&
                  static_cast<u32>(opcode::write_zeroes) == WARPBELL_OPCODE_WRITE_ZEROES &&
                  (command::fua == WARPBELL_FUA || mutate::fua_forgotten) && sizeof(warpbell_command) == 40,
              "the flat layer has NVMe's numbers, and its callers count bytes");

// Whether the reference may be attached to.
WARPBELL_D bool is_good(const warpbell_namespace_ref* ns, u32 warp) {
    return ns != nullptr && ns->abi_version == WARPBELL_ABI_VERSION && ns->size == sizeof(*ns) &&
           ns->queue_count != 0 && warp < ns->warps;
}

template <sharing Mode, class Group>
WARPBELL_D status make(const Group& group, session_head& head, const warpbell_namespace_ref& ns, u32 warp) {
    new (port::place{&head + 1}) session<Mode>(group, ns, warp);
    return head.as<Mode>().queue().refusal();
}

template <class Group>
WARPBELL_D u32 attach(const Group& group, owner by, warpbell_session* session,
                      const warpbell_namespace_ref* ns, u32 warp) {
    session_head& head = *session_head::of(session);
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
// The same for one I/O of a group: what kept any lane's part from beginning, in every lane.
template <class Group>
WARPBELL_D status keep_part(const Group& group, warpbell_token* to, const io_token& token) {
    const status mine = keep(to, token);
    const u32 failed = group.ballot(!mine.ok());
    const u64 first = failed != 0 ? group.from(port::lowest(failed), mine.bits) : 0;
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
WARPBELL_D optional<status> poll(const Group& group, session<Mode>& s, warpbell_token* kept) {
    io_token token = take(kept);
    const optional<status> said = try_wait(group, s, token);
    *kept = token.bits();
    return said;
}

WARPBELL_D status status_if(const optional<status>& said) {
    return said ? *said : status::from_bits(WARPBELL_PENDING);
}

// One answer of all lanes' commands, once all have come: until then each token is as it was.
template <sharing Mode>
WARPBELL_D status poll_all(const this_warp_t& warp, session<Mode>& s, warpbell_token* kept) {
    (void)s.queue().reap(warp);
    if (warp.ballot(!s.queue().is_answered(io_token::from_bits(*kept))) != 0) {
        return status::from_bits(WARPBELL_PENDING);
    }
    return wait(warp, s, take(kept));
}

// ---- what the calls do, of a group and its session; types, as NVRTC has no generic lambdas in device code

struct detach_it {
    session_head* head;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        s.detach(group);
        s.~session<Mode>();
        head->marked = 0;
        return status();
    }
};

struct switch_it {
    u64 timeout_ns;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return s.switch_to_successor(group, timeout_ns);
    }
};

struct run_it {
    request of;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return run(group, s, of.what(s), of.timeout_ns);
    }
};
struct run_for_each {
    request of;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return run_each(group, s, of.what_if_any(s), of.timeout_ns);
    }
};
struct submit_it {
    request of;
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return keep_part(group, token, submit(group, s, of.what(s), of.timeout_ns));
    }
};
struct submit_for_each {
    request of;
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return keep(token, submit_each(group, s, of.what_if_any(s), of.timeout_ns));
    }
};
struct wait_it {
    u64 timeout_ns;
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return wait(group, s, take(token), timeout_ns);
    }
};
struct wait_for_each {
    u64 timeout_ns;
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return wait_each(group, s, take(token), timeout_ns);
    }
};
struct wait_for_any {
    u64 timeout_ns;
    warpbell_token* tokens;
    u32 count;
    u32* index;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        static_assert(sizeof(io_token) == sizeof(warpbell_token) && any_status::none == WARPBELL_NO_TOKEN,
                      "the flat layer has the library's");
        const any_status first =
            detail::wait_any(group, s.queue(), reinterpret_cast<io_token*>(tokens), count, timeout_ns);
        *index = first.index;
        return first.result;
    }
};
struct try_all {
    warpbell_token* token;
    template <sharing Mode> WARPBELL_D status operator()(const this_warp_t& warp, session<Mode>& s) const {
        return poll_all(warp, s, token);
    }
};
struct try_each {
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return status_if(poll(group, s, token));
    }
};
struct cancel_it {
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return cancel(group, s, take(token));
    }
};
struct cancel_for_each {
    warpbell_token* token;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return cancel_each(group, s, take(token));
    }
};

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
    return flat::by_owner(session, flat::detach_it{flat::session_head::of(session)});
}
WARPBELL_FLAT uint32_t warpbell_switch_to_successor(warpbell_session* session, uint64_t timeout_ns) {
    return warpbell::flat::by_owner(session, warpbell::flat::switch_it{timeout_ns});
}

// Of a command, a read or a write, by whom it is called and what it does.
#define WARPBELL_FLAT_EXECUTE(name, by, what)                                                                \
    WARPBELL_FLAT uint32_t warpbell_##name(warpbell_session* session, const warpbell_command* command,       \
                                           uint64_t timeout_ns) {                                            \
        using namespace warpbell::flat;                                                                      \
        return by(session, what{request::of(*command, timeout_ns)});                                         \
    }
#define WARPBELL_FLAT_SUBMIT(name, by, what)                                                                 \
    WARPBELL_FLAT uint32_t warpbell_##name(warpbell_session* session, warpbell_token* token,                 \
                                           const warpbell_command* command, uint64_t timeout_ns) {           \
        using namespace warpbell::flat;                                                                      \
        return by(session, what{request::of(*command, timeout_ns), token});                                  \
    }
#define WARPBELL_FLAT_MOVE(name, by, what, op)                                                               \
    WARPBELL_FLAT uint32_t warpbell_##name(warpbell_session* session, uint64_t block, uint32_t blocks,       \
                                           const warpbell_buffer_ref* buffer, uint64_t offset,               \
                                           uint64_t timeout_ns) {                                            \
        using namespace warpbell::flat;                                                                      \
        return by(session, what{{warpbell::opcode::op, block, blocks, buffer, offset, timeout_ns}});         \
    }
#define WARPBELL_FLAT_BEGIN(name, by, what, op)                                                              \
    WARPBELL_FLAT uint32_t warpbell_##name(warpbell_session* session, warpbell_token* token, uint64_t block, \
                                           uint32_t blocks, const warpbell_buffer_ref* buffer,               \
                                           uint64_t offset, uint64_t timeout_ns) {                           \
        using namespace warpbell::flat;                                                                      \
        return by(session, what{{warpbell::opcode::op, block, blocks, buffer, offset, timeout_ns}, token});  \
    }
WARPBELL_FLAT_EXECUTE(execute, by_thread, run_it)
WARPBELL_FLAT_EXECUTE(execute_warp, by_warp, run_it)
WARPBELL_FLAT_EXECUTE(execute_each, by_warp, run_for_each)
WARPBELL_FLAT_SUBMIT(submit, by_thread, submit_it)
WARPBELL_FLAT_SUBMIT(submit_warp, by_warp, submit_it)
WARPBELL_FLAT_SUBMIT(submit_each, by_warp, submit_for_each)
WARPBELL_FLAT_MOVE(read, by_thread, run_it, read)
WARPBELL_FLAT_MOVE(read_warp, by_warp, run_it, read)
WARPBELL_FLAT_MOVE(read_each, by_warp, run_for_each, read)
WARPBELL_FLAT_MOVE(write, by_thread, run_it, write)
WARPBELL_FLAT_MOVE(write_warp, by_warp, run_it, write)
WARPBELL_FLAT_MOVE(write_each, by_warp, run_for_each, write)
WARPBELL_FLAT_BEGIN(read_async, by_thread, submit_it, read)
WARPBELL_FLAT_BEGIN(read_async_warp, by_warp, submit_it, read)
WARPBELL_FLAT_BEGIN(read_async_each, by_warp, submit_for_each, read)
WARPBELL_FLAT_BEGIN(write_async, by_thread, submit_it, write)
WARPBELL_FLAT_BEGIN(write_async_warp, by_warp, submit_it, write)
WARPBELL_FLAT_BEGIN(write_async_each, by_warp, submit_for_each, write)
#undef WARPBELL_FLAT_EXECUTE
#undef WARPBELL_FLAT_SUBMIT
#undef WARPBELL_FLAT_MOVE
#undef WARPBELL_FLAT_BEGIN

WARPBELL_FLAT uint32_t warpbell_flush(warpbell_session* session, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_thread(session, flat::run_it{{opcode::flush, 0, 0, nullptr, 0, timeout_ns}});
}
WARPBELL_FLAT uint32_t warpbell_flush_warp(warpbell_session* session, uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(session, flat::run_it{{opcode::flush, 0, 0, nullptr, 0, timeout_ns}});
}
WARPBELL_FLAT uint32_t warpbell_flush_async(warpbell_session* session, warpbell_token* token,
                                            uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_thread(session, flat::submit_it{{opcode::flush, 0, 0, nullptr, 0, timeout_ns}, token});
}
WARPBELL_FLAT uint32_t warpbell_flush_async_warp(warpbell_session* session, warpbell_token* token,
                                                 uint64_t timeout_ns) {
    using namespace warpbell;
    return flat::by_warp(session, flat::submit_it{{opcode::flush, 0, 0, nullptr, 0, timeout_ns}, token});
}

WARPBELL_FLAT uint32_t warpbell_wait(warpbell_session* session, warpbell_token* token, uint64_t timeout_ns) {
    return warpbell::flat::by_thread(session, warpbell::flat::wait_it{timeout_ns, token});
}
WARPBELL_FLAT uint32_t warpbell_wait_warp(warpbell_session* session, warpbell_token* token,
                                          uint64_t timeout_ns) {
    return warpbell::flat::by_warp(session, warpbell::flat::wait_it{timeout_ns, token});
}
WARPBELL_FLAT uint32_t warpbell_wait_each(warpbell_session* session, warpbell_token* token,
                                          uint64_t timeout_ns) {
    return warpbell::flat::by_warp(session, warpbell::flat::wait_for_each{timeout_ns, token});
}

WARPBELL_FLAT uint32_t warpbell_wait_any(warpbell_session* session, warpbell_token* tokens, uint32_t count,
                                         uint32_t* index, uint64_t timeout_ns) {
    *index = WARPBELL_NO_TOKEN;
    return warpbell::flat::by_thread(session, warpbell::flat::wait_for_any{timeout_ns, tokens, count, index});
}
WARPBELL_FLAT uint32_t warpbell_wait_any_each(warpbell_session* session, warpbell_token* tokens,
                                              uint32_t count, uint32_t* index, uint64_t timeout_ns) {
    *index = WARPBELL_NO_TOKEN;
    return warpbell::flat::by_warp(session, warpbell::flat::wait_for_any{timeout_ns, tokens, count, index});
}

WARPBELL_FLAT uint32_t warpbell_try_wait(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_thread(session, warpbell::flat::try_each{token});
}
WARPBELL_FLAT uint32_t warpbell_try_wait_warp(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_warp(session, warpbell::flat::try_all{token});
}
WARPBELL_FLAT uint32_t warpbell_try_wait_each(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_warp(session, warpbell::flat::try_each{token});
}

WARPBELL_FLAT uint32_t warpbell_cancel(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_thread(session, warpbell::flat::cancel_for_each{token});
}
WARPBELL_FLAT uint32_t warpbell_cancel_warp(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_warp(session, warpbell::flat::cancel_it{token});
}
WARPBELL_FLAT uint32_t warpbell_cancel_each(warpbell_session* session, warpbell_token* token) {
    return warpbell::flat::by_warp(session, warpbell::flat::cancel_for_each{token});
}

WARPBELL_DEVICE uint32_t warpbell_status_ok(uint32_t status) { return status == 0; }
WARPBELL_DEVICE uint32_t warpbell_status_differs(uint32_t status) {
    return warpbell::status::from_bits(status).differs();
}
WARPBELL_DEVICE uint32_t warpbell_status_retryable(uint32_t status) {
    return warpbell::status::from_bits(status).retryable();
}
WARPBELL_DEVICE uint32_t warpbell_status_buffer_in_use(uint32_t status) {
    return status == WARPBELL_PENDING || warpbell::status::from_bits(status).buffer_in_use();
}

} // extern "C"
