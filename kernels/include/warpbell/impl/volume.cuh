// Bodies of volume.cuh: who is asked for what, and what becomes of a replica that fails.
#pragma once

#include "../volume.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

#define WARPBELL_VOLUME_MEMBER(result)                                                                       \
    template <sharing Mode, u32 Members, class Map, class Retry>                                             \
    WARPBELL_D result volume<Mode, Members, Map, Retry>
#define WARPBELL_VOLUME_CALL(result, ...)                                                                    \
    template <sharing Mode, u32 Members, class Map, class Retry>                                             \
    template <__VA_ARGS__>                                                                                   \
    WARPBELL_D result volume<Mode, Members, Map, Retry>

namespace detail {

// Waits for commands that were started. A session with a policy has `start(want, timeout_ns)` called again.
template <class Group, sharing Mode, class Retry, class Start>
WARPBELL_D status finish(const Group& group, session<Mode, Retry>& s, bool want, io_token&& token,
                         Start start, u64 timeout_ns) {
    const status first = s.queue().wait(group, move(token), timeout_ns);
    if constexpr (Retry::enabled) {
        return retrying<Group, Mode, Retry>(group, s, timeout_ns).run(want, first, start);
    } else {
        return first;
    }
}

// The answer of a read that was submitted so long ago. One that had a command's time without an answer is
// given up.
template <class Group, sharing Mode, class Retry>
WARPBELL_D optional<status> poll_token(const Group& group, session<Mode, Retry>& s, io_token& token,
                                       u64 age_ns) {
    const optional<status> said = s.queue().try_wait(group, token);
    const bool late = !said && age_ns > s.queue().deadline(0) && !mutate::prefetch_not_given_up;
    return late ? optional<status>(s.queue().abandon(move(token))) : said;
}

} // namespace detail

// What a session without a slot answers is the warp's failure, and must not become the replica's.
WARPBELL_VOLUME_MEMBER(bool)::lacks_a_slot() {
    bool lacks = false;
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < ref_.member_count; ++m) {
        lacks = lacks || sessions_[m].queue().refusal().is(code::invalid_field);
    }
    return lacks;
}

WARPBELL_VOLUME_MEMBER(status)::check(opcode op, extent where, const volume_span& data, u32 flags) const {
    const bool moves = detail::carries_blocks(op);
    if (!usable_ || (moves && data.members() != ref_.member_count) || where.blocks == 0 ||
        !detail::is_taken(op, flags)) {
        return code::invalid_field;
    }
    if ((ref_.flags & detail::flag_of_lack(op)) != 0 && !mutate::missing_command_sent) {
        return status::invalid_opcode();
    }
    if (where.blocks > ref_.blocks || where.start.value > ref_.blocks - where.blocks) {
        return code::out_of_range;
    }
    if (moves && (!data.inside() || data.bytes() >> ref_.block_shift < where.blocks)) {
        return code::out_of_buffer;
    }
    return status();
}

// ---- replicas

// Those that a read may go to, but for those it went to already.
WARPBELL_VOLUME_MEMBER(u32)::readable(u32 tried) const {
    const u32 left = (mutate::replica_kept ? all() : present()) & ~tried;
    const u32 avoided = static_cast<u32>(port::load_relaxed_gpu(&state()->avoided));
    const u32 liked = left & ~(mutate::avoided_read ? 0 : avoided);
    return liked != 0 ? liked : left;
}

// Where a command for this part goes. 0: no member is left.
WARPBELL_VOLUME_MEMBER(u32)::members_for(opcode op, const detail::volume_part& part, u32 tried) const {
    if (!replicated()) {
        return 1u << part.member;
    }
    if (detail::changes_medium(op) || (op == opcode::compare && mutate::compared_everywhere)) {
        return mutate::one_replica_written ? 1u << port::lowest(present()) : present();
    }
    const u32 from = readable(tried);
    return from != 0 ? 1u << Map::replica(ref_, from, warp_, part.chunk) : 0;
}

// Takes replicas out that missed a write. False: no other is left, and nothing was done. Whoever learns of
// the write after this, learns of them.
WARPBELL_VOLUME_MEMBER(bool)::drop(u32 failed) const {
    u64 have = port::load_relaxed_gpu(&state()->present);
    while (true) {
        const u64 left = have & ~static_cast<u64>(failed);
        if (left == 0 && !mutate::last_replica_dropped) {
            return false;
        }
        const u64 found = port::cas_relaxed_gpu(&state()->present, have, left);
        if (found == have) {
            port::fence_gpu();
            return true;
        }
        have = found;
    }
}

// What becomes of commands to the members in `mask` that were done on those in `done`; those in `rejected`
// found fault with the command itself, which says nothing of the replica: it stays, and the call fails. Of
// what changes nothing `mask` has one.
WARPBELL_VOLUME_MEMBER(status)::settle(opcode op, u32 mask, u32 done, u32 rejected, status answer) const {
    if (done == mask) {
        return op == opcode::compare ? answer : status();
    }
    const u32 failed = mask & ~done & ~rejected;
    const bool others_have_it = replicated() && done != 0 && (failed == 0 || drop(failed));
    return others_have_it && rejected == 0 ? status() : answer;
}

// ---- commands

// One command of each lane on each member in the lane's `mask`: all are on their way before one is waited
// for. Returns the members that did it. `answer`: of one that did not, first of all one that may still use
// the buffer, then one in `rejected`, whose status finds fault with the command; or of one that did what was
// asked and found that blocks differ.
WARPBELL_VOLUME_CALL(u32, class Group, class Start)::run_on(const Group& group, opcode op, u32 mask,
                                                            Start start, u64 timeout_ns, status& answer,
                                                            u32& rejected) {
    io_token tokens[Members];
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < ref_.member_count; ++m) {
        const bool want = (mask >> m & 1u) != 0;
        if (group.ballot(want) != 0) {
            tokens[m] = start(m, want, timeout_ns);
        }
    }
    u32 done = 0;
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < ref_.member_count; ++m) {
        const bool want = (mask >> m & 1u) != 0;
        if (group.ballot(want) == 0) {
            continue;
        }
        const auto again = [&](bool now, u64 left_ns) { return start(m, now, left_ns); };
        const status said = detail::finish(group, sessions_[m], want, move(tokens[m]), again, timeout_ns);
        const bool differs = op == opcode::compare && said.differs() && !mutate::difference_is_failure;
        if (want && (said.ok() || differs)) {
            done |= 1u << m;
            answer = differs ? said : answer;
        } else if (want) {
            port::store_relaxed_gpu(&counts(m)->error_status, static_cast<u64>(said.bits));
            port::add_relaxed_gpu(&counts(m)->errors, static_cast<u64>(1));
            // Replicas of what changes nothing are asked one after the other.
            const bool rejects =
                detail::changes_medium(op) && said.rejects_command() && !mutate::rejecting_replica_dropped;
            rejected |= rejects ? 1u << m : 0u;
            const bool first = answer.ok() || (rejects && !answer.buffer_in_use());
            answer = first || said.buffer_in_use() ? said : answer;
        }
    }
    return done;
}

// A part of each lane's I/O. What changes nothing goes to one replica after the other, until one has done it;
// one whose controller may still use the buffer ends it.
WARPBELL_VOLUME_CALL(status, class Group)::move_part(const Group& group, opcode op, u32 flags,
                                                     const detail::volume_part& part, const volume_span& data,
                                                     u64 timeout_ns) {
    const u64 bytes = static_cast<u64>(part.blocks) << ref_.block_shift;
    const bool reads = !detail::changes_medium(op), picks = reads && replicated();
    const auto start = [&](u32 m, bool want, u64 left_ns) {
        const optional<extent> where = want ? optional<extent>(part.on(ref_, m)) : optional<extent>();
        const bool moves = want && detail::carries_blocks(op);
        const dma_span span = moves ? data.on(m).subspan(part.offset, bytes) : dma_span();
        return detail::start_each(group, sessions_[m], op, where, span, left_ns, flags);
    };
    bool go = part.blocks != 0;
    status result = go ? status(code::ssd_lost) : status();
    u32 tried = 0;
    while (group.ballot(go) != 0) {
        const u32 mask = go ? members_for(op, part, tried) : 0;
        status answer;
        u32 rejected = 0;
        const u32 done = run_on(group, op, mask, start, timeout_ns, answer, rejected);
        for (u32 m = 0; m < ref_.member_count; ++m) {
            const u32 counted = mutate::failed_bytes_counted ? mask : done;
            const u64 moved = (counted >> m & 1u) != 0 && detail::carries_blocks(op) ? bytes : 0;
            (reads ? sessions_.bytes_read : sessions_.bytes_written)[m] += moved;
        }
        if (picks && answer.buffer_in_use()) {
            port::or_relaxed_gpu(&state()->avoided, static_cast<u64>(mask));
        }
        result = mask != 0 ? settle(op, mask, done, rejected, answer) : result;
        tried |= mask;
        go = picks && mask != 0 && done == 0 && (!result.buffer_in_use() || mutate::read_repeated_in_use) &&
             !mutate::read_not_repeated;
    }
    return result;
}

// ---- I/Os

WARPBELL_VOLUME_CALL(status, class Group)::run(const Group& group, opcode op, optional<extent> where,
                                               const volume_span& data, bool whole, u64 timeout_ns,
                                               u32 flags) {
    status result = where ? check(op, *where, data, flags) : status();
    timeout_ns = sessions_[0].queue().deadline(timeout_ns);
    detail::rounds_deadline end(timeout_ns, true);
    u64 index = whole ? group.thread_rank() : 0;
    port::keep_in_memory(end);
    port::keep_in_memory(where);
    port::keep_in_memory(index);
    while (true) {
        const bool open = where.has_value() && result.ok();
        detail::volume_part part;
        if (open) {
            part = detail::part_of(ref_, *where, index, detail::piece_blocks(ref_, op));
        }
        port::keep_in_memory(part);
        if (group.ballot(part.blocks != 0) == 0) {
            return result;
        }
        const u64 left_ns = replicated() ? timeout_ns : end.left(group);
        if (left_ns == 0) {
            return whole || part.blocks != 0 ? status(code::not_submitted) : result;
        }
        const status answer = move_part(group, op, flags, part, data, left_ns);
        result = part.blocks != 0 ? answer : result;
        result = whole ? detail::agree_on_data(group, result) : result;
        index += whole ? group.size() : 1u;
    }
}

WARPBELL_VOLUME_CALL(status, class Group)::flush(const Group& group, u64 timeout_ns) {
    if (!usable_) {
        return code::invalid_field;
    }
    const auto start = [&](u32 m, bool want, u64 left_ns) {
        return sessions_[m].queue().submit(group, want, detail::flush_entry(sessions_[m]), left_ns);
    };
    const u32 mask = !group.is_leader() ? 0 : mutate::one_ssd_flushed ? 1u : replicated() ? present() : all();
    status answer;
    u32 rejected = 0;
    const u32 done = run_on(group, opcode::flush, mask, start, timeout_ns, answer, rejected);
    return detail::agree(group, settle(opcode::flush, mask, done, rejected, answer));
}

// ---- reads that nobody waits for yet

// The member that would read it now, and which part of it; 0: none can.
WARPBELL_VOLUME_MEMBER(u32)::member_for_start(extent where, detail::volume_part& part) {
    part = detail::part_of(ref_, where, 0, ref_.piece_blocks);
    const u32 mask = part.blocks == where.blocks ? members_for(opcode::read, part, 0) : 0;
    if (mask == 0) {
        return 0;
    }
    const u32 m = port::lowest(mask);
    auto& s = sessions_[m];
    const bool may = part.on(ref_, m).blocks <= s.max_blocks() && s.queue().free_ids() > 1u;
    return may && !s.queue().refuses() ? mask : 0;
}

// The member for a read of one command, in `mask`; or why there is none.
WARPBELL_VOLUME_MEMBER(status)::member_for_read(extent where, const volume_span& data,
                                                detail::volume_part& part, u32& mask) const {
    const status refusal = check(where, data);
    if (!refusal.ok()) {
        return refusal;
    }
    part = detail::part_of(ref_, where, 0, ref_.piece_blocks);
    if (part.blocks != where.blocks) {
        return code::too_large;
    }
    mask = members_for(opcode::read, part, 0);
    return mask != 0 ? status() : status(code::ssd_lost);
}

WARPBELL_VOLUME_CALL(detail::member_read, class Group)::start_read(const Group& group, optional<extent> where,
                                                                   const volume_span& data, u64 timeout_ns) {
    detail::volume_part part;
    u32 mask = 0;
    const status refusal = where ? member_for_read(*where, data, part, mask) : status();
    detail::member_read read;
    read.bytes = static_cast<u64>(part.blocks) << ref_.block_shift;
    detail::on_each_member(group, ref_.member_count, mask, read, [&](u32 m, bool want) {
        const optional<extent> on = want ? optional<extent>(part.on(ref_, m)) : optional<extent>();
        const dma_span span = want ? data.on(m).subspan(0, read.bytes) : dma_span();
        return detail::start_each(group, sessions_[m], opcode::read, on, span, timeout_ns);
    });
    if (!refusal.ok()) {
        read.token = io_token::refused(refusal);
    }
    return read;
}

WARPBELL_VOLUME_MEMBER(bool)::may_start(extent where) {
    detail::volume_part part;
    return usable_ && member_for_start(where, part) != 0;
}

WARPBELL_VOLUME_CALL(detail::member_read, class Group)::start(const Group& group, optional<extent> where,
                                                              const volume_span& data) {
    detail::volume_part part;
    const u32 mask = where && check(*where, data).ok() ? member_for_start(*where, part) : 0;
    detail::member_read read;
    read.bytes = static_cast<u64>(part.blocks) << ref_.block_shift;
    detail::on_each_member(group, ref_.member_count, mask, read, [&](u32 m, bool want) {
        const extent on = want ? part.on(ref_, m) : extent();
        const dma_span span = want ? data.on(m).subspan(0, read.bytes) : dma_span();
        const bool goes = want && sessions_[m].check(opcode::read, on, span).ok();
        const sqe entry = goes ? sessions_[m].entry(opcode::read, on, span) : sqe();
        return sessions_[m].queue().try_submit(group, goes, entry);
    });
    return read;
}

WARPBELL_VOLUME_MEMBER(void)::note_read(const detail::member_read& read, status said) {
    if (said.ok()) {
        sessions_.bytes_read[read.member] += read.bytes;
        return;
    }
    port::store_relaxed_gpu(&counts(read.member)->error_status, static_cast<u64>(said.bits));
    port::add_relaxed_gpu(&counts(read.member)->errors, static_cast<u64>(1));
    if (replicated() && said.buffer_in_use()) {
        port::or_relaxed_gpu(&state()->avoided, 1ull << read.member);
    }
}

WARPBELL_VOLUME_CALL(optional<status>, class Group)::try_finish(const Group& group, detail::member_read& read,
                                                                u64 age_ns) {
    optional<status> said;
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < ref_.member_count; ++m) {
        const bool mine = read.in_flight() && read.member == m;
        if (group.ballot(mine) == 0) {
            continue;
        }
        (void)sessions_[m].queue().reap(group);
        io_token token;
        if (mine) {
            token = warpbell::move(read.token);
        }
        const optional<status> now = detail::poll_token(group, sessions_[m], token, age_ns);
        if (mine) {
            read.token = warpbell::move(token);
            said = now;
        }
    }
    if (said) {
        note_read(read, *said);
    }
    return said;
}

WARPBELL_VOLUME_CALL(status, class Group)::finish(const Group& group, detail::member_read&& read,
                                                  u64 timeout_ns) {
    status said;
    const bool any = read.in_flight();
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < ref_.member_count; ++m) {
        const bool mine = read.in_flight() && read.member == m;
        if (group.ballot(mine) == 0) {
            continue;
        }
        io_token token;
        if (mine) {
            token = warpbell::move(read.token);
        }
        const status answer = sessions_[m].queue().wait(group, warpbell::move(token), timeout_ns);
        said = mine ? answer : said;
    }
    if (any) {
        note_read(read, said);
    }
    return said;
}

WARPBELL_VOLUME_CALL(void, class Group)::detach(const Group& who) {
    const auto group = group_of(who);
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < Members; ++m) {
        if (sessions_.bytes_read[m] != 0) {
            port::add_relaxed_gpu(&counts(m)->bytes_read, sessions_.bytes_read[m]);
        }
        if (sessions_.bytes_written[m] != 0) {
            port::add_relaxed_gpu(&counts(m)->bytes_written, sessions_.bytes_written[m]);
        }
        sessions_.bytes_read[m] = sessions_.bytes_written[m] = 0;
        sessions_[m].detach(group);
    }
}

#undef WARPBELL_VOLUME_CALL
#undef WARPBELL_VOLUME_MEMBER

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
