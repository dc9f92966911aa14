// Submission: command ids, reserve, write, publish.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// ---- command ids: each lane owns 2^token_shift of them, so that taking one needs no atomic ------------

template <sharing Mode> WARPBELL_D u32 queue<Mode>::take_id() {
    const u32 usable = refusal_ != 0 ? 0u : free_;
    free_ ^= usable & (0u - usable);
    return port::lowest_if_any(usable);
}

// Commands that timed out and have completed since: their ids, and their buffers, are free again.
template <sharing Mode> WARPBELL_NOINLINE void queue<Mode>::rescan_quarantine() {
    u32 kept = quarantine_;
    // The same number of rounds in each lane: they leave the loop together.
    WARPBELL_NO_UNROLL
    for (u32 k = 0; k < most_ids; ++k) {
        const u32 bit = kept & 1u << k;
        if (bit == 0 ||
            (is_pending(port::load_relaxed_gpu(word(lane_id_, k))) && !mutate::quarantine_left_early)) {
            continue;
        }
        kept &= ~bit;
        trace_late(wire_cid(k));
        port::store_relaxed_sys(quarantine_word(), kept);
        u32* late = &state()->late[port::lane()];
        if constexpr (is_shared) {
            port::add_relaxed_gpu(late, 1);
        } else {
            port::store_relaxed_gpu(late, port::load_relaxed_gpu(late) + 1u);
        }
    }
    if (kept != quarantine_) {
        // The mask before the words that are armed next: else the host takes a new command for the old one.
        port::fence_sys();
    }
    free_ |= quarantine_ & ~kept;
    quarantine_ = kept;
}

// ---- reserve, write, publish ---------------------------------------------------------------------------

// One attempt, by the leader: takes what fits of n slots, but at least `least`. Only what has room is
// reserved: a ticket cannot be released, so its holder must not have to wait for the controller.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::reserve(u32 n, u32 least) {
    static_assert(is_shared, "an exclusive queue has no ticket");
    u64* ticket = &state()->ticket;
    // Alone on the queue, the ticket is where this lane left it; else a load is cheaper than a lost CAS.
    u64 t = at_.ticket;
    if (at_.others != 0) {
        t = port::load_relaxed_gpu(ticket);
    }
    // In the round trip of that load, or of the CAS. (Alone, it is what this lane stored; not to load it then
    // takes an instruction more.)
    port::issued_with_last(true);
    at_.turn = static_cast<u32>(port::load_relaxed_gpu(&state()->turn));
    port::issued_with_last(false);
    // Unsigned, a closed ticket lies above every limit; by a signed difference its room may look endless.
    const auto room_of = [this](u64 at) { return static_cast<int64_t>(at_.limit - at); };
    WARPBELL_NO_UNROLL
    for (;;) {
        u32 m = n;
        if (mutate::no_room_check) {
            at_.limit = t + n;
        }
        if (mutate::closed_ignored ? room_of(t) < static_cast<int64_t>(n) : t + n > at_.limit) {
            // The only source of room: completions reaped and reported. Acquire: the controller has fetched
            // the entries that are about to be overwritten, which the reaper learnt before it released this.
            at_.limit =
                (port::load_acquire_gpu(mutate::head_without_reported ? &state()->head : &state()->reap) &
                 ~WARPBELL_REAP_LOCK) +
                cap();
            if (mutate::closed_ignored ? room_of(t) < static_cast<int64_t>(least)
                                       : t + (least - 1u) >= at_.limit) {
                const u64 newest = port::load_relaxed_gpu(ticket);
                return pack(newest & WARPBELL_TICKET_CLOSED && !mutate::closed_ignored ? step::lost
                                                                                       : step::idle);
            }
            // Of an old ticket it may be anything: then the CAS fails.
            const u32 room = static_cast<u32>(at_.limit) - static_cast<u32>(t);
            m = room < n ? room : n;
        }
        const u64 old = port::cas_relaxed_gpu(ticket, t, t + m);
        if (old == t) {
            // Remembers that others took tickets, and forgets it over the next reservations.
            at_.others = at_.others >> 1 | (static_cast<u32>(at_.ticket) ^ static_cast<u32>(t));
            at_.ticket = t + m;
            return pack(step::granted, m, t);
        }
        t = old; // another warp was faster, and is before us
    }
}

// What is granted of n slots to the group's waiting lanes: all of them if `whole`, else at least one. idle:
// there is no room, or nothing is asked for.
template <sharing Mode>
template <class Group>
WARPBELL_D u32 queue<Mode>::ask_for_room(const Group& group, u32 n, bool whole) {
    if constexpr (is_shared) {
        return group.broadcast(group.is_leader() && n != 0 ? reserve(n, whole ? n : 1u) : pack(step::idle));
    } else {
        // All lanes have the counters: no broadcast.
        const u32 free = cap() - at_.outstanding;
        if (!mutate::head_without_reported && free - at_.unreported < n && at_.unreported != 0) {
            report(group.is_leader());
        }
        const u32 unreported = mutate::head_without_reported ? 0 : at_.unreported;
        const u32 room = mutate::no_room_check ? n : free - unreported;
        return n != 0 && room >= (whole ? n : 1u) ? pack(step::granted, room < n ? room : n, at_.tail)
                                                  : pack(step::idle);
    }
}

// Arms the completion slot.
template <sharing Mode> WARPBELL_D void queue<Mode>::arm(u32 k) {
    if (!mutate::word_not_armed) {
        port::store_relaxed_gpu(word(lane_id_, k),
                                generation_ << WARPBELL_SLOT_GENERATION_SHIFT | WARPBELL_SLOT_PENDING);
    }
}

template <sharing Mode> WARPBELL_D u32* queue<Mode>::entry_at(u32 index) const {
    return reinterpret_cast<u32*>(ref_.sq) + static_cast<u64>(port::low_bits(index, ref_.sq_shift)) * 16u;
}

// Stores the entry: 16 dwords, each of them defined.
template <sharing Mode> WARPBELL_D void queue<Mode>::write_entry(u32 index, u32 k, const sqe& entry) {
    u32* slot = entry_at(index);
    const u32* d = entry.dword;
    // Bits 31:16 of a wide id, zero of any other, go into a dword that NVM commands reserve.
    port::store_quad(slot, (d[0] & 0xffffu) | wire_cid(k) << 16, d[1], d[2] | wire_cid(k) >> 16, d[3]);
    port::store_quad(slot + 4, d[4], d[5], d[6], d[7]);
    port::store_quad(slot + 8, d[8], d[9], d[10], d[11]);
    if (!mutate::sqe_undefined_dword) {
        port::store_quad(slot + 12, d[12], d[13], d[14], d[15]);
    }
    port::count_entry_written();
}

// The same for all lanes of `writers` at once, the first of which has slot `first`. Lanes exchange quarters
// four by four: each then has one quarter of four entries, and a store of the warp writes whole entries
// instead of a quarter of each. For memory behind PCIe, where each piece of a line is a write of its own.
// All 32 lanes call.
template <sharing Mode>
WARPBELL_D void queue<Mode>::write_entries(u32 first, u32 writers, u32 k, const sqe& entry) {
    u32 d[16];
    for (u32 i = 0; i < 16; ++i) {
        d[i] = entry.dword[i];
    }
    d[0] = (d[0] & 0xffffu) | wire_cid(k) << 16;
    d[2] |= wire_cid(k) >> 16;
    const u32 own = port::lane() & 3u;
    // Rows are quarters, columns are lanes: bit by bit, what is off the diagonal changes places.
    for (u32 bit = 1; bit != 4; bit <<= 1) {
        const bool upper = (own & bit) != 0;
        for (u32 i = 0; i < 16; ++i) {
            const u32 row = i / 4u;
            if ((row & bit) == 0) {
                u32& low = d[i];
                u32& high = d[i + bit * 4u];
                const u32 got = port::shuffle(~0u, port::select(upper, low, high), port::lane() ^ bit);
                low = port::select(upper, got, low);
                high = port::select(upper, high, got);
            }
        }
    }
    for (u32 i = 0; i < 4; ++i) {
        const u32 lane = (port::lane() & ~3u) + i;
        if ((writers >> lane & 1u) != 0) {
            const u32 index = first + port::population(writers & ((1u << lane) - 1u));
            port::store_quad(entry_at(index) + own * 4u, d[i * 4], d[i * 4 + 1], d[i * 4 + 2], d[i * 4 + 3]);
        }
    }
    if ((writers >> port::lane() & 1u) != 0) {
        port::count_entry_written();
    }
}

// Waits until all entries before `from` are published. Returns the newest ticket that was seen meanwhile.
//
// F3 comes first: what this group has stored, before it passes on what its predecessors have. It passes that
// on by a read-modify-write, which carries on what they have released; so each of them is acquired by the one
// that rings, and no fence is between two turns.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::wait_for_turn(u32 from, u32 until) {
    u32 ticket = until;
    if (!mutate::no_fence_turn) {
        port::fence_gpu();
    }
    // Waits for warps only: each holder of an earlier ticket has nothing left but its own stores.
    u32 published;
    WARPBELL_NO_UNROLL
    do {
        port::pause();
        published = static_cast<u32>(port::load_relaxed_gpu(&state()->turn));
        // In the same round trip. An old value only makes us ring where somebody else will, too.
        port::issued_with_last(true);
        ticket = static_cast<u32>(port::load_relaxed_gpu(&state()->ticket));
        port::issued_with_last(false);
    } while (published != from);
    return ticket;
}

// Shared, the leader: makes the entries [begin, end) known to the controller once all before them are.
template <sharing Mode> WARPBELL_D void queue<Mode>::ring_in_turn(u64 begin, u64 end) {
    u64* turn = &state()->turn;
    // Low halves suffice: what is published and what is reserved are less than a ring apart.
    const u32 from = static_cast<u32>(begin), until = static_cast<u32>(end);
    // Unless all before us was published when we reserved.
    const bool waits = at_.turn != from && !mutate::no_turn;
    const u32 ticket = waits ? wait_for_turn(from, until) : until;
    // If somebody holds a later ticket, he has room and will get the turn: he rings for us.
    bool ring = ticket == until || (from ^ until) >> ref_.ring_shift != 0;
    if (mutate::ring_if_first) {
        ring = !waits;
    }
    if (mutate::ring_after_turn) {
        port::store_release_gpu(turn, end);
    }
    if (!ring) {
        if (!mutate::ring_after_turn) {
            port::raise_fenced_gpu(turn, end);
        }
        return;
    }
    // F1: these entries, and those of predecessors who left the ring to us, before the doorbell.
    if (!mutate::no_fence_doorbell) {
        port::fence_sys();
    }
    ring_sq(0, until);
    if (mutate::ring_after_turn) {
        return;
    }
    // F2: this doorbell before the next holder's; a smaller tail after a larger one is a wrap.
    if (!mutate::no_fence_after_doorbell) {
        port::fence_gpu();
    }
    port::store_relaxed_gpu(turn, end);
}

// From the reservation to the last store here nothing waits for the controller, the host or a lock.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::publish(const Group& group, u32 count) {
    if constexpr (is_shared) {
        if (group.is_leader()) {
            ring_in_turn(at_.ticket - count, at_.ticket);
        }
    } else {
        at_.tail += count;
        at_.outstanding += count;
        if (!group.is_leader()) {
            return;
        }
        if (!mutate::no_fence_doorbell) {
            port::fence_sys();
        } // F1: entries before the doorbell
        ring_sq(static_cast<u32>(at_.tail) - count, static_cast<u32>(at_.tail));
    }
}

// The first lanes of `waiting` write their entries into the slots that were granted, and the leader
// publishes them.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::use_grant(const Group& group, u32 granted, u32 waiting, u32& k, const sqe& entry,
                                       io_token& token) {
    const u32 count = count_of(granted), rank = rank_in(waiting);
    if (is_shared) {
        group.sync();
    } // the leader's acquire of room covers every lane's stores
    const bool writes = k != no_id && rank < count;
    if (writes) {
        generation_ = mutate::generation_stuck ? 1u : (generation_ + 1u) & 0xffffu;
        arm(k);
    }
    if constexpr (detail::writes_whole_entries<Group>) {
        write_entries(granted, group.ballot(writes), k, entry);
    }
    if (writes) {
        if constexpr (!detail::writes_whole_entries<Group>) {
            write_entry(granted + rank, k, entry);
        }
        trace_submit(wire_cid(k), generation_, granted + rank, entry.dword);
        token = io_token::submitted(tag_, wire_cid(k), generation_);
        k = no_id;
    }
    group.sync();
    publish(group, count);
}

// Never submitted: id and buffer are free at once.
template <sharing Mode> WARPBELL_D void queue<Mode>::withdraw(u32 k, status why, io_token& token) {
    if (why.is(code::queue_lost)) {
        refusal_ = why.bits;
    }
    if (k == no_id) {
        return;
    }
    release(k);
    token = io_token::refused(why);
}

template <sharing Mode>
template <class Group>
WARPBELL_D io_token queue<Mode>::try_submit(const Group& group, bool want, const sqe& entry) {
    u32 k = want ? take_id() : no_id;
    io_token token;
    if (want) {
        token = io_token::refused(refusal_ ? status::from_bits(refusal_) : status(code::no_cid));
    }
    const u32 waiting = group.ballot(k != no_id);
    if (waiting == 0) {
        return token;
    }
    const u32 next = ask_for_room(group, port::population(waiting), false);
    if (kind_of(next) == step::granted) {
        use_grant(group, next, waiting, k, entry, token);
    }
    withdraw(k, kind_of(next) == step::lost ? code::queue_lost : code::no_room, token);
    return token;
}

// `Entry`: sqe, of callers with much in registers. What differs among entries of I/O commands (opcode, data
// pointer, first block, count) lies in memory meanwhile; the other dwords are left alone: most are constants.
// Of others const sqe&, which nobody copies.
template <sharing Mode>
template <class Group>
WARPBELL_D typename queue<Mode>::step queue<Mode>::poll_for_room(const Group& group, backoff& patience,
                                                                 sqe& entry) {
    const auto poll = [&] { return poll_ring(group, patience, true); };
    u32* d = entry.dword;
    return port::aside(poll, d[0], d[6], d[7], d[8], d[9], d[10], d[11], d[12]);
}
template <sharing Mode>
template <class Group>
WARPBELL_D typename queue<Mode>::step queue<Mode>::poll_for_room(const Group& group, backoff& patience,
                                                                 const sqe&) {
    return poll_ring(group, patience, true);
}

template <sharing Mode>
template <class Entry, class Group>
WARPBELL_D io_token queue<Mode>::submit_all(const Group& group, bool want, Entry entry, backoff& patience,
                                            bool whole) {
    u32 k = want ? take_id() : no_id;
    io_token token;
    if (want) {
        token = io_token::refused(refusal_ ? status::from_bits(refusal_) : status(code::no_cid));
    }
    u32 waiting = group.ballot(k != no_id);
    // Before lanes are refused for want of an id: perhaps commands of theirs that timed out have completed,
    // and nobody has reaped that.
    u32 starved =
        port::opaque(waiting == group.mask() ? 0u : group.ballot(want && k == no_id && quarantine_ != 0));
    // A refusal is of all lanes that are left, after the loop, which has one end for all of them.
    status why = code::not_submitted;
    if (whole && static_cast<u32>(port::population(waiting | starved)) > sq_mask()) {
        why = code::invalid_batch;
        waiting = starved = 0;
    }
    u32 on = starved | waiting;
    WARPBELL_NO_UNROLL
    while (on != 0) {
        const u32 n = port::population(waiting);
        const u32 next = ask_for_room(group, starved == 0 ? n : 0u, whole);
        step did = kind_of(next);
        if (did == step::granted) {
            use_grant(group, next, waiting, k, entry, token);
        } else {
            // Room comes from completions, and this group may be the only one that can look for them.
            did = did == step::lost ? did : poll_for_room(group, patience, entry);
            why = did == step::lost ? status(code::queue_lost) : why;
            if (starved != 0 && want && k == no_id && did != step::expired && did != step::lost) {
                rescan_quarantine();
                k = take_id();
            }
            starved = 0;
        }
        const bool ends = did == step::expired || did == step::lost || mutate::partial_batch_lost;
        // On a GPU by a ballot, though nobody may be left: a loop that ends by what was shuffled, or
        // returned, may end for some lanes alone as far as the compiler knows.
        const bool all = did == step::granted && count_of(next) == n && !port::votes_keep_together;
        waiting = on = all ? 0u : group.ballot(k != no_id && !ends);
    }
    withdraw(k, why, token);
    release_poller(patience, false);
    return token;
}

template <sharing Mode>
template <class Group>
WARPBELL_D io_token queue<Mode>::submit(const Group& group, bool want, const sqe& entry, backoff& backoff) {
    return submit_all<sqe>(group, want, entry, backoff, false);
}

template <sharing Mode>
template <class Group>
WARPBELL_D io_token queue<Mode>::submit(const Group& group, bool want, const sqe& entry, u64 timeout_ns) {
    backoff backoff(timeout_ns);
    return submit_all<const sqe&>(group, want, entry, backoff, false);
}

template <sharing Mode>
template <class Group>
WARPBELL_D io_token queue<Mode>::submit_whole(const Group& group, bool want, const sqe& entry,
                                              u64 timeout_ns) {
    backoff backoff(timeout_ns);
    return submit_all<const sqe&>(group, want, entry, backoff, true);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
