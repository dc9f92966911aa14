// Completion: one group looks at the ring and collects for all who wait.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

constexpr u64 fallback_deadline_ns = 30ull * 1000 * 1000 * 1000;

// ---- polling -----------------------------------------------------------------------------------

template <sharing Mode> WARPBELL_D u64 queue<Mode>::deadline(u64 deadline_ns) const {
    const u64 wait_ns = deadline_ns ? deadline_ns : ref_.deadline_ns;
    return wait_ns ? wait_ns : fallback_deadline_ns;
}

// Slow path, in one of polls_per_clock polls: the clock, and whether the host has given the queue up.
template <sharing Mode> WARPBELL_D bool queue<Mode>::clock_says_stop(pace& pace, bool& lost) {
    lost = !mutate::lost_ignored && port::load_relaxed_sys(&host()->state) != WARPBELL_QUEUE_RUNNING;
    const u64 now = port::clock_ns();
    if (pace.end_ns_ == 0) {
        pace.end_ns_ = now + deadline(pace.deadline_ns_);
    }
    return !mutate::no_deadline && now >= pace.end_ns_;
}

// From now on the hot path fails too, at no cost of its own.
template <sharing Mode> WARPBELL_D void queue<Mode>::close() {
    if constexpr (is_shared) {
        port::or_relaxed_gpu(&state()->ticket, WARPBELL_TICKET_CLOSED);
    }
}

// Shared: takes the lock if its word still holds `seen`, in which it is free. Acquire: the earlier
// holder's head and words before ours.
template <sharing Mode> WARPBELL_D bool queue<Mode>::take_lock(u64 seen, pace& pace) {
    const bool took =
        mutate::no_lock || port::cas_acquire_gpu(&state()->reap, seen, seen | WARPBELL_REAP_LOCK) == seen;
    pace.told_ = took ? seen & ~WARPBELL_REAP_LOCK : pace.told_;
    return took;
}

// Shared: whether this group polls the ring for all who wait. It does while it holds the lock; the others
// poll their own words, in the GPU's memory, until it leaves.
template <sharing Mode> WARPBELL_D bool queue<Mode>::become_poller(pace& pace) {
    static_assert(is_shared, "an exclusive queue has no lock");
    if (pace.is_poller_) {
        return true;
    }
    const u64 seen = port::load_relaxed_gpu(&state()->reap);
    if (((seen & WARPBELL_REAP_LOCK) != 0 && !mutate::no_lock) || !take_lock(seen, pace)) {
        return false;
    }
    pace.is_poller_ = true;
    pace.head_ = static_cast<u32>(port::load_relaxed_gpu(&state()->head));
    return true;
}

// By the leader, before its group does anything but wait: another group may poll the ring.
template <sharing Mode> WARPBELL_D void queue<Mode>::release_poller(pace& pace) {
    if constexpr (is_shared) {
        if (pace.is_poller_ && !mutate::lock_kept) {
            pace.is_poller_ = false;
            publish_room(pace.told_);
        }
    }
}

// F6, one store: after the CQ doorbell, so that the controller never sees a full queue and the next reaper's
// doorbell comes later. With LOCK in it, it gives room; without, it also unlocks.
template <sharing Mode> WARPBELL_D void queue<Mode>::publish_room(u64 reap) {
    if (mutate::no_fence_unlock) {
        port::store_relaxed_gpu(&state()->reap, reap);
    } else {
        port::store_release_gpu(&state()->reap, reap);
    }
}

// Counts a poll.
template <sharing Mode> WARPBELL_D bool queue<Mode>::clock_is_due(pace& pace) {
    pace.polls_ = (pace.polls_ + 1u) & (port::polls_per_clock - 1u);
    return pace.polls_ == port::polls_per_clock / 2u;
}

// By the leader: what its group does next. `reap`: it polls the ring, from the index on.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::poll_once(pace& pace) {
    if (pace.final_) {
        return pack(step::expired);
    }
    port::count_poll();
    if (port::polls_per_clock != 0 && clock_is_due(pace)) {
        bool lost = false;
        pace.final_ = clock_says_stop(pace, lost); // the last poll collects whatever there is
        if (lost) {
            close();
            return pack(step::lost);
        }
    }
    if constexpr (is_shared) {
        return become_poller(pace) ? pack(step::reap, 0, pace.head_) : pack(step::others);
    } else {
        return at_.outstanding != 0 ? pack(step::reap, 0, reaped()) : pack(step::idle);
    }
}

// Whether its group has something to see, or nothing that a leader could find out alone.
template <sharing Mode> WARPBELL_D bool queue<Mode>::has_news(pace& pace, u32 next) const {
    if (kind_of(next) == step::reap) {
        return ready(next);
    }
    if (kind_of(next) != step::others) {
        return true;
    }
    // Others have collected since: perhaps what this group waits for.
    const u32 head = static_cast<u32>(port::load_relaxed_gpu(&state()->head));
    const bool moved = head != pace.head_;
    pace.head_ = head;
    return moved;
}

// The same, after a pause if the last poll found nothing. Where a warp's collectives cost more than many
// polls, the leader polls alone first.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::leader_poll(pace& pace, bool in_submit) {
    if (pace.empty_polls_ != 0) {
        port::pause_longer(pace.empty_polls_);
    }
    const bool gives_up =
        in_submit ? mutate::no_reap_in_submit : mutate::try_once && (pace.polls_ != 0 || pace.end_ns_ != 0);
    if (gives_up) {
        return pack(step::others);
    }
    const bool was_poller = pace.is_poller_;
    u32 next = poll_once(pace);
    for (u32 n = 1; n < port::polls_alone() && !pace.final_ && !has_news(pace, next); ++n) {
        port::pause();
        next = poll_once(pace);
    }
    if (in_submit && mutate::deadline_ignored_in_submit && kind_of(next) == step::expired) {
        pace.final_ = false;
        next = pack(step::idle);
    }
    // Between this group's last look at its words and the lock, the poller before may have answered it. Of an
    // exclusive queue there is no poller before.
    return is_shared && kind_of(next) == step::reap && !was_poller ? next | pack(step::idle, 1, 0) : next;
}

// One poll of the group, and all that it leads to. Lane r loads entry head + r: one round trip to the ring
// shows all that is posted, and it is collected at once.
template <sharing Mode>
template <class Group>
WARPBELL_D typename queue<Mode>::step queue<Mode>::poll_ring(const Group& group, pace& pace, bool in_submit) {
    const u32 next = group.broadcast(group.is_leader() ? leader_poll(pace, in_submit) : 0u);
    step found = kind_of(next);
    if (is_shared && count_of(next) != 0) {
        group.sync(); // the leader's acquire of the lock covers every lane's words
    }
    if (found == step::reap) {
        const u32 index = next & index_bits;
        const u32 posted = group.ballot(ready(index + group.thread_rank()));
        const bool is_new = count_of(next) != 0 && !mutate::words_not_read_again;
        found = posted >> group.leader() & 1u ? step::reap : is_new ? step::others : step::idle;
        // Who wants room also has what was collected before reported.
        if (found == step::reap || in_submit) {
            collect(group, index, true, in_submit, pace);
        }
    }
    const u32 longest = found == step::others ? port::longest_pause : 1u;
    pace.empty_polls_ = found == step::reap           ? 0u
                        : pace.empty_polls_ < longest ? pace.empty_polls_ + 1u
                                                      : longest;
    return found;
}

// ---- collecting, by the group; under the lock, where there is one ----------------------------------------

template <sharing Mode> WARPBELL_D u32 queue<Mode>::cid_of(u64 entry, u32 index) const {
    const u32 cid = static_cast<u32>(entry >> 32) & 0xffffu;
    if (!wide_cids()) {
        return cid;
    }
    // Dword 1 has bits 31:16; after F5, and before the second fence that finish_collect has for it.
    return cid | port::load_relaxed_sys(reinterpret_cast<const u32*>(ref_.cq) + (index & cq_mask()) * 4u + 1u)
                     << 16;
}

// One completion into its command's word. False if no pending command owns it: a second completion of a
// command, or an id we never issued.
template <sharing Mode>
WARPBELL_D bool queue<Mode>::deliver(u32 cid, u32 wire_status, bool repeated, u32 rank) {
    const u32 lane_id = (cid >> lane_shift()) ^ (mutate::status_of_neighbour ? 1u : 0u);
    const u32 k = cid & ((1u << lane_shift()) - 1u);
    port::count_entry_reaped();
    if (!repeated && lane_id < ref_.warp_slots * WARPBELL_WARP_LANES && k >> ref_.token_shift == 0) {
        u32* w = word(lane_id, k);
        const u32 armed = port::load_relaxed_gpu(w);
        if (armed & WARPBELL_WORD_PENDING || mutate::spurious_accepted) {
            port::store_relaxed_gpu(w, (armed & ~0xffffu) | wire_status);
            return true;
        }
    }
    u32* spurious = &state()->spurious[rank];
    port::store_relaxed_gpu(spurious, port::load_relaxed_gpu(spurious) + 1u);
    return false;
}

// SQHD decides nothing here, so a controller that reports it wrongly does no harm; it is counted. What
// it says was fetched must lie between what has completed and what was submitted. `completed` counts
// what was nobody's before this batch.
template <sharing Mode> WARPBELL_D void queue<Mode>::compare_sqhd(u64 entry, u32 completed) {
    u64 tail;
    if constexpr (is_shared) {
        tail = port::load_relaxed_gpu(&state()->ticket);
        port::issued_with_last(true);
        completed -= port::load_relaxed_gpu(&state()->surplus);
        port::issued_with_last(false);
    } else {
        tail = at_.tail;
        completed -= at_.surplus;
    }
    if (((static_cast<u32>(entry) - completed) & sq_mask()) >
        ((static_cast<u32>(tail) - completed) & index_bits)) {
        u32* count = &state()->sqhd_mismatch;
        port::store_relaxed_gpu(count, port::load_relaxed_gpu(count) + 1u);
    }
}

// The run of posted entries from index `first` on, to their commands' words: one for each lane at most.
template <sharing Mode>
template <class Group>
WARPBELL_D u32 queue<Mode>::take_run(const Group& group, u32 first, u32& surplus) {
    const u32 rank = group.thread_rank(), index = first + rank;
    // F5, an acquire load: the phase before the rest of the entry and before the payload; and all entry
    // loads before the CQ doorbell, as each lane's is over before the lanes meet.
    const u64 entry = mutate::word_before_payload ? completion(index) : taken(index);
    // Counted in ranks from the first: the lanes below the lowest bad one, or all if there is none.
    const u32 bad = group.mask() & ~group.ballot(posted(entry, index));
    const u32 run = port::population(group.mask() & ((bad & (0u - bad)) - 1u));
    if (run == 0) {
        return 0;
    }
    // What this lane has acquired before the words: whoever reads them is on another processor.
    if (is_shared && !mutate::word_before_payload) {
        port::fence_gpu_group(rank == 0);
    }
    const u32 cid = cid_of(entry, index);
    // Of two completions of one command in one look the first counts: both would find it pending.
    // Lanes beyond the run come after those in it.
    const bool repeated = (group.match(cid) & port::lanes_below()) != 0 && !mutate::repeated_in_one_look;
    const bool owned = rank >= run || deliver(cid, static_cast<u32>(entry >> 49), repeated, rank);
    surplus += mutate::surplus_gives_room ? 0u : port::population(group.ballot(!owned));
    if (rank + 1u == run) {
        compare_sqhd(entry, index + 1u - surplus);
    }
    return run;
}

// The same by a thread alone: several entries in one round trip to the ring.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::take_run(const this_thread_t&, u32 first, u32& surplus) {
    const u64* from[port::entries_together];
    u64 entry[port::entries_together];
    for (u32 i = 0; i < port::entries_together; ++i) {
        from[i] = completion_at(first + i);
    }
    port::load_relaxed_sys(from, entry);
    u32 run = 0;
    for (u32 i = 0; i < port::entries_together; ++i) {
        run += run == i && posted(entry[i], first + i) ? 1u : 0u;
    }
    if (run != 0 && !mutate::word_before_payload) {
        // F5 of all of them: the controller wrote the last one after the others, and after their payloads.
        (void)taken(first + run - 1u);
        if (is_shared) {
            port::fence_gpu();
        }
    }
    WARPBELL_NO_UNROLL
    for (u32 i = 0; i < run; ++i) {
        const u32 cid = cid_of(entry[0], first + i);
        const bool owned = deliver(cid, static_cast<u32>(entry[0] >> 49), false, 0);
        surplus += owned || mutate::surplus_gives_room ? 0u : 1u;
        if (i + 1u == run) {
            compare_sqhd(entry[0], first + run - surplus);
        }
        // No indexing by `i`: the entries stay in registers.
        for (u32 k = 1; k < port::entries_together; ++k) {
            entry[k - 1u] = entry[k];
        }
    }
    return run;
}

// Everything that is posted from index `from` on, as far as a warp's worth. `keep`: the lock, where there is
// one. `tell_all`: the controller is told of all that was collected.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::collect(const Group& group, u32 from, bool keep, bool tell_all, pace& pace) {
    const u32 begin = from & index_bits, most = entries_of(group);
    u32 count = 0, surplus = 0, run;
    if (is_shared) {
        group.sync(); // the leader's acquire of the lock covers every lane's look at the words
    }
    do {
        run = take_run(group, begin + count, surplus);
        count += run;
        group.sync(); // a smaller group looks again, and other lanes at the same words
    } while (most < batch_max && run == most && count < batch_max);
    trace_reap(group.thread_rank() == 0, begin, count, surplus);
    finish_collect(group, count, surplus, keep, tell_all, pace);
}

// Exclusive: tells the controller how far completions were collected.
template <sharing Mode> WARPBELL_D void queue<Mode>::tell(bool leader) {
    static_assert(!is_shared, "a shared queue tells under its lock");
    if (leader) {
        ring_cq(static_cast<u32>(reaped()) - at_.untold, static_cast<u32>(reaped()));
    }
    at_.untold = 0;
}

// Tells the controller, if enough is untold. What was nobody's is told at once: so all that is untold are
// commands, and their number is what the reserved lack in room.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::finish_collect(const Group& group, u32 count, u32 surplus, bool keep,
                                            bool tell_all, pace& pace) {
    if (wide_cids() && group.is_leader()) {
        port::fence_sys(); // dword 1 of all entries before the CQ doorbell
    }
    const u32 threshold = mutate::lazy_cq_too_late ? 1u << ref_.cq_shift
                          : tell_all               ? 1u
                                                   : ref_.told_threshold;
    if constexpr (!is_shared) {
        at_.outstanding -= count - surplus;
        at_.untold += count;
        at_.surplus += surplus;
        if (at_.untold >= threshold || surplus != 0) {
            tell(group.is_leader());
        }
    } else if (group.is_leader()) {
        const u64 told = pace.told_; // the lock's holder alone writes it
        const u64 head = port::load_relaxed_gpu(&state()->head) + count;
        port::issued_with_last(true);
        const u32 nobodys = port::load_relaxed_gpu(&state()->surplus);
        // Little room is left: who comes next would wait for room that there is. Low halves suffice: what is
        // reserved and not told is less than a ring.
        const u32 reserved = static_cast<u32>(port::load_relaxed_gpu(&state()->ticket) - told);
        port::issued_with_last(false);
        const bool scarce = (reserved + port::room_wanted) >> ref_.sq_shift != 0 && !mutate::lazy_cq_too_late;
        if (count != 0 || !keep) { // a poller without room comes here again and again
            port::store_relaxed_gpu(&state()->head, head);
        }
        pace.head_ = static_cast<u32>(head);
        if (surplus != 0) {
            port::store_relaxed_gpu(&state()->surplus, nobodys + surplus);
        }
        const u32 untold = static_cast<u32>(head - told) - nobodys - surplus;
        const bool tells = untold >= (scarce ? 1u : threshold) || surplus != 0;
        if (tells) {
            if (mutate::told_early) {
                port::store_release_gpu(&state()->reap, (told + untold) | WARPBELL_REAP_LOCK);
            }
            ring_cq(static_cast<u32>(told) + nobodys, static_cast<u32>(head));
        }
        pace.told_ = told + (tells ? untold : 0u);
        if (tells || !keep) {
            publish_room(pace.told_ | (keep ? WARPBELL_REAP_LOCK : 0));
        }
    }
}

// One poll of a waiter. For lanes with a seat: a waiter has one, or every token of its group has an answer at
// once.
template <sharing Mode>
template <class Group>
WARPBELL_D typename queue<Mode>::step queue<Mode>::advance(const Group& group, pace& pace) {
    if (quarantine_ != 0) {
        rescan_quarantine();
    }
    const step did = poll_ring(group, pace, false);
    if (did == step::lost) {
        refusal_ = status(code::queue_lost).bits;
    }
    return did;
}

// Exclusive: nothing will come.
template <sharing Mode> WARPBELL_D bool queue<Mode>::nothing_outstanding() const {
    if constexpr (is_shared) {
        return false;
    } else {
        return at_.outstanding == 0;
    }
}

// Whether a command of this lane's has its answer.
template <sharing Mode> WARPBELL_D bool queue<Mode>::has_answer() const {
    const u32 ids = (2u << ((1u << ref_.token_shift) - 1u)) - 1u;
    bool answer = false;
    WARPBELL_NO_UNROLL
    for (u32 left = ids & ~(free_ | quarantine_); left != 0; left &= left - 1u) {
        answer = answer || !is_pending(port::load_relaxed_gpu(word(lane_id_, port::lowest(left))));
    }
    return answer;
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::progress(const Group& group, pace& pace) {
    if ((refusal_ & page_only) != 0) {
        return progress_result::lost;
    }
    progress_result result = progress_result::idle;
    WARPBELL_NO_UNROLL
    for (u32 n = 0; n < port::polls_per_call(); ++n) {
        const step did = advance(group, pace);
        if (did == step::expired || did == step::lost) {
            result = did == step::lost ? progress_result::lost : progress_result::expired;
            break;
        }
        if (did == step::reap || did == step::others) {
            // Of an exclusive queue every command is the group's.
            const bool answered = !is_shared || group.ballot(has_answer()) != 0;
            result = answered || did == step::reap ? progress_result::reaped : result;
            if (answered) {
                break;
            }
        } else if (nothing_outstanding()) {
            break;
        }
    }
    release_poller(pace);
    return result;
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::reap(const Group& group) {
    pace pace;
    u32 next = pack(step::idle);
    // Of an exclusive queue without a seat nothing is outstanding.
    if (group.is_leader() && !(is_shared && (refusal_ & page_only) != 0)) {
        if constexpr (is_shared) {
            // The lock only where there is something: a poll that finds nothing costs no atomic. The head may
            // have moved by then.
            const u64 seen = port::load_relaxed_gpu(&state()->reap);
            const u64* head = &state()->head;
            if ((seen & WARPBELL_REAP_LOCK) == 0 && ready(static_cast<u32>(port::load_relaxed_gpu(head))) &&
                take_lock(seen, pace)) {
                next = pack(step::reap, 0, port::load_relaxed_gpu(head));
            }
        } else if (at_.outstanding != 0 && ready(static_cast<u32>(reaped()))) {
            next = pack(step::reap, 0, reaped());
        }
    }
    next = group.broadcast(next);
    if (next == pack(step::idle)) {
        return progress_result::idle;
    }
    collect(group, next, mutate::lock_kept, false, pace);
    return progress_result::reaped;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
