// Polling: the clock, the lock of the one group that polls the ring, and one poll of a group.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

constexpr u64 fallback_timeout_ns = 30ull * 1000 * 1000 * 1000;

template <sharing Mode> WARPBELL_D u64 queue<Mode>::deadline(u64 timeout_ns) const {
    const u64 wait_ns = timeout_ns ? timeout_ns : ref_.timeout_ns;
    return wait_ns ? wait_ns : fallback_timeout_ns;
}

// Slow path, in one of polls_per_clock polls: the clock; and in one of polls_per_state, or at the deadline,
// whether the host has given the queue up. That is a trip to host memory, and most answers come sooner.
template <sharing Mode> WARPBELL_NOINLINE bool queue<Mode>::clock_says_stop(backoff& backoff, bool& lost) {
    const u64 now = port::clock_ns();
    if (backoff.end_ns_ == 0) {
        backoff.end_ns_ = now + deadline(backoff.timeout_ns_);
    }
    const bool late = !mutate::no_deadline && now >= backoff.end_ns_;
    if (late || ((backoff.polls_ + port::polls_per_clock / 2u) & (port::polls_per_state() - 1u)) == 0) {
        lost = !mutate::lost_ignored && port::load_relaxed_sys(&host()->state) != WARPBELL_QUEUE_RUNNING;
    }
    return late;
}

// From now on the hot path fails too, at no cost of its own.
template <sharing Mode> WARPBELL_D void queue<Mode>::close() {
    if constexpr (is_shared) {
        port::or_relaxed_gpu(&state()->ticket, WARPBELL_TICKET_CLOSED);
    }
}

// Shared: takes the lock if its word still holds `seen`, in which it is free. Acquire: the earlier
// holder's head and words before ours.
template <sharing Mode> WARPBELL_D bool queue<Mode>::take_lock(u64 seen, backoff& backoff) {
    const bool took =
        mutate::no_lock || port::cas_acquire_gpu(&state()->reap, seen, seen | WARPBELL_REAP_LOCK) == seen;
    if (took) {
        backoff.reported_ = mutate::no_lock ? seen & ~WARPBELL_REAP_LOCK : seen;
    }
    return took;
}

// Shared: whether this group polls the ring for all who wait. It does while it holds the lock; the others
// poll their own words, in the GPU's memory, until it leaves.
template <sharing Mode> WARPBELL_D bool queue<Mode>::become_poller(backoff& backoff) {
    static_assert(is_shared, "an exclusive queue has no lock");
    if (backoff.is_poller_) {
        return true;
    }
    const u64 seen = port::load_relaxed_gpu(&state()->reap);
    if (((seen & WARPBELL_REAP_LOCK) != 0 && !mutate::no_lock) || !take_lock(seen, backoff)) {
        return false;
    }
    backoff.is_poller_ = true;
    backoff.head_ = static_cast<u32>(port::load_relaxed_gpu(&state()->head));
    return true;
}

// Before a group does anything but wait: another one may poll the ring. Its leader alone is a poller.
// `fenced`: it has fenced since it last collected.
template <sharing Mode> WARPBELL_D void queue<Mode>::release_poller(backoff& backoff, bool fenced) {
    if constexpr (is_shared) {
        if (backoff.is_poller_ && !mutate::lock_kept) {
            backoff.is_poller_ = backoff.owes_room_ = false;
            // What it acquired and reported is room, which its next reservation need not load.
            at_.limit = backoff.reported_ + cap();
            publish_room(backoff.reported_, fenced);
        }
    }
}

// F6, one store: after the CQ doorbell, so that the controller never sees a full queue and the next reaper's
// doorbell comes later. With LOCK in it, it gives room; without, it also unlocks.
template <sharing Mode> WARPBELL_D void queue<Mode>::publish_room(u64 reap, bool fenced) {
    if (fenced || mutate::no_fence_unlock) {
        port::store_relaxed_gpu(&state()->reap, reap);
    } else {
        port::store_release_gpu(&state()->reap, reap);
    }
}

// Counts a poll.
template <sharing Mode> WARPBELL_D bool queue<Mode>::clock_is_due(backoff& backoff) {
    backoff.polls_ = (backoff.polls_ + 1u) & (port::polls_per_state() - 1u);
    return (backoff.polls_ & (port::polls_per_clock - 1u)) == port::polls_per_clock / 2u;
}

// By a poller that goes on polling: others may have the room that its last report made. One that leaves gives
// it with the lock.
template <sharing Mode> WARPBELL_D void queue<Mode>::give_room(backoff& backoff) {
    if (backoff.owes_room_) {
        backoff.owes_room_ = false;
        publish_room(backoff.reported_ | WARPBELL_REAP_LOCK, false);
    }
}

// By the leader: what its group does next. `reap`: it polls the ring, from the index on.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::poll_once(backoff& backoff) {
    if (backoff.final_) {
        return pack(step::expired);
    }
    port::count_poll();
    if (port::polls_per_clock != 0 && clock_is_due(backoff)) {
        bool lost = false;
        backoff.final_ = clock_says_stop(backoff, lost); // the last poll collects whatever there is
        if (lost) {
            close();
            return pack(step::lost);
        }
    }
    if constexpr (is_shared) {
        give_room(backoff);
        return become_poller(backoff) ? pack_poll(backoff.head_) : pack(step::others);
    } else {
        return at_.outstanding != 0 ? pack_poll(reaped()) : pack(step::idle);
    }
}

// Whether its group has something to see, or nothing that a leader could find out alone.
template <sharing Mode> WARPBELL_D bool queue<Mode>::has_news(backoff& backoff, u32 next) const {
    if (kind_of(next) == step::reap) {
        return ready(next);
    }
    if (kind_of(next) != step::others) {
        return true;
    }
    // Others have collected since: perhaps what this group waits for.
    const u32 head = static_cast<u32>(port::load_relaxed_gpu(&state()->head));
    const bool moved = head != backoff.head_;
    backoff.head_ = head;
    return moved;
}

// The same, after a pause if the last poll found nothing. Where a warp's collectives cost more than many
// polls, the leader polls alone first.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::leader_poll(backoff& backoff, bool in_submit) {
    if (backoff.empty_polls_ != 0) {
        port::pause_longer(backoff.empty_polls_);
    }
    const bool gives_up = in_submit ? mutate::no_reap_in_submit
                                    : mutate::try_once && (backoff.polls_ != 0 || backoff.end_ns_ != 0);
    if (gives_up) {
        return pack(step::others);
    }
    const bool was_poller = backoff.is_poller_;
    u32 next = poll_once(backoff);
    for (u32 n = 1; n < port::polls_alone() && !backoff.final_ && !has_news(backoff, next); ++n) {
        port::pause();
        next = poll_once(backoff);
    }
    if (in_submit && mutate::deadline_ignored_in_submit && kind_of(next) == step::expired) {
        backoff.final_ = false;
        next = pack(step::idle);
    }
    // Between this group's last poll at its words and the lock, the poller before may have answered it. Of an
    // exclusive queue there is no poller before.
    return is_shared && kind_of(next) == step::reap && !was_poller ? next | pack(step::idle, new_poller, 0)
                                                                   : next;
}

// Exclusive, by the leader, who collects as a thread alone does where collectives are dear: what came of it,
// and of that what was nobody's. On a shared queue it would be too soon: of a batch of another group it would
// find a part, which that group then submits again apart.
template <sharing Mode>
WARPBELL_D u32 queue<Mode>::collect_for_group(u32 next, bool in_submit, backoff& backoff) {
    if constexpr (is_shared) {
        return next;
    } else {
        if (kind_of(next) != step::reap) {
            return next;
        }
        const u32 outstanding = at_.outstanding, surplus = at_.surplus;
        (void)collect(this_thread(), next, true, in_submit, backoff);
        const u32 more = at_.surplus - surplus;
        return pack(step::reap, outstanding - at_.outstanding + more, more);
    }
}

// Exclusive: what the leader collected enters its group's own counters. Their lanes share a processor: they
// see the words that it stored.
template <sharing Mode>
template <class Group>
WARPBELL_D bool queue<Mode>::follow_leader(const Group& group, u32 next, bool in_submit, backoff& backoff) {
    if (!group.is_leader()) {
        finish_collect(group, view{}, count_of(next), next & index_bits, true, in_submit, backoff);
    }
    return count_of(next) != 0;
}

// One poll of the group, and all that it leads to. Who waits has a hazard slot, or every token of its group
// has an answer at once.
template <sharing Mode>
template <class Group>
WARPBELL_NOINLINE typename queue<Mode>::step queue<Mode>::poll_ring(const Group& group, backoff& backoff,
                                                                    bool in_submit) {
    if (quarantine_ != 0 && !in_submit) {
        rescan_quarantine();
    }
    // Not where data is flushed: a thread collects a few entries at a time, each time after a flush.
    const bool alone = !is_shared && port::collectives_are_dear() && (ref_.flags & WARPBELL_QUEUE_FLUSH) == 0;
    u32 next = group.is_leader() ? leader_poll(backoff, in_submit) : 0u;
    if (alone && group.is_leader()) {
        next = collect_for_group(next, in_submit, backoff);
    }
    next = group.broadcast(next);
    const bool is_new = is_shared && (count_of(next) & new_poller) != 0;
    step found = kind_of(next);
    if (is_new) {
        group.sync(); // the leader's acquire of the lock covers every lane's words
    }
    if (found == step::reap) {
        // Who wants room also has what was collected before reported.
        const bool any = alone ? follow_leader(group, next, in_submit, backoff)
                               : collect(group, next, true, in_submit, backoff);
        found = any ? step::reap : is_new && !mutate::words_not_read_again ? step::others : step::idle;
    }
    const u32 longest = found == step::others ? port::longest_pause : 1u;
    backoff.empty_polls_ = found == step::reap              ? 0u
                           : backoff.empty_polls_ < longest ? backoff.empty_polls_ + 1u
                                                            : longest;
    if (found == step::lost) {
        refusal_ = status(code::queue_lost).bits;
    }
    return found;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
