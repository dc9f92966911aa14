// Completion: one lane looks, one warp collects for all.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

constexpr u64 fallback_deadline_ns = 30ull * 1000 * 1000 * 1000;

// ---- the leader's look -----------------------------------------------------------------------------------

template <sharing Mode> WARPBELL_D u64 queue<Mode>::deadline(u64 deadline_ns) const {
    const u64 wait_ns = deadline_ns ? deadline_ns : ref_.deadline_ns;
    return wait_ns ? wait_ns : fallback_deadline_ns;
}

// Slow path, in one of looks_per_clock looks: the clock, and whether the host has given the queue up.
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

// Whether collecting is worth a fence, a doorbell and, shared, two atomics: `target` entries are ready,
// or some are and their number has stopped growing. Looks at two entries, since more looks cost more.
template <sharing Mode>
WARPBELL_D bool queue<Mode>::worth_reaping(pace& pace, u32 head, u32 target, bool eager) const {
    if (ready(head + target - 1u)) {
        return true;
    }
    if (pace.run_head_ != head || pace.run_ == 0) {
        pace.run_head_ = head;
        pace.run_ = pace.stale_ = 0;
        if (!ready(head)) {
            return false;
        }
        pace.run_ = 1;
    }
    if (pace.final_ || eager) {
        return true;
    }
    // Alternately half way to the target and next to the known run.
    u32 probe = pace.run_ + (pace.stale_ & 1u ? 0u : (target - pace.run_) >> 1);
    if (ready(head + probe)) {
        pace.run_ = probe + 1u;
        pace.stale_ = 0;
        return false;
    }
    return ++pace.stale_ > port::patience_looks;
}

// Takes the lock with the value of `reap` that was seen free; returns what to collect, if it was won.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::lock_for_reap(u64 seen) {
    static_assert(is_shared, "an exclusive queue has no lock");
    u64* reap = &state()->reap;
    // Acquire: the earlier holder's head and words before ours.
    if (!mutate::no_lock && port::cas_acquire_gpu(reap, seen, seen | WARPBELL_REAP_LOCK) != seen) {
        return pack(step::idle);
    }
    // The CAS proves that `told` stood still, not `head`: it is read again, and so are the phases.
    return pack(step::reap, 0, port::load_relaxed_gpu(&state()->head));
}

// Counts a look.
template <sharing Mode> WARPBELL_D bool queue<Mode>::clock_is_due(pace& pace) {
    pace.looks_ = (pace.looks_ + 1u) & (port::looks_per_clock - 1u);
    return pace.looks_ == port::looks_per_clock / 2u;
}

template <sharing Mode> WARPBELL_D u32 queue<Mode>::look_once(pace& pace, bool eager) {
    const u32 nothing = pack(pace.final_ ? step::expired : step::idle);
    if (pace.final_) {
        return nothing;
    }
    port::count_poll();
    if (port::looks_per_clock != 0 && clock_is_due(pace)) {
        bool lost = false;
        pace.final_ = clock_says_stop(pace, lost); // the last look collects whatever there is
        if (lost) {
            close();
            return pack(step::lost);
        }
    }
    u64 head, seen = 0;
    u32 outstanding;
    if constexpr (is_shared) {
        seen = port::load_relaxed_gpu(&state()->reap);
        if (seen & WARPBELL_REAP_LOCK) {
            return pack(pace.final_ ? step::expired : step::idle);
        }
        head = port::load_relaxed_gpu(&state()->head);
        outstanding = static_cast<u32>(port::load_relaxed_gpu(&state()->ticket)) +
                      port::load_relaxed_gpu(&state()->surplus) - static_cast<u32>(head);
    } else {
        head = reaped();
        outstanding = at_.outstanding;
    }
    if (static_cast<int>(outstanding) > 0) {
        const u32 target = outstanding < batch_max ? outstanding : batch_max;
        if (worth_reaping(pace, static_cast<u32>(head), target, eager)) {
            if constexpr (is_shared) {
                const u32 next = lock_for_reap(seen);
                if (kind_of(next) == step::reap) {
                    return next;
                }
            } else {
                return pack(step::reap, 0, head);
            }
        }
    }
    return pack(pace.final_ ? step::expired : step::idle);
}

// By the leader: looks until there is something to do, but only so often; then its group looks at its
// own words, which another warp may have completed. `eager`: whatever there is is worth collecting.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::look(pace& pace, bool in_submit, bool eager) {
    if (in_submit && mutate::no_reap_in_submit) {
        port::pause();
        return pack(step::idle);
    }
    if (!in_submit && mutate::try_once && (pace.looks_ != 0 || pace.end_ns_ != 0)) {
        port::pause();
        return pack(step::idle);
    }
    for (u32 n = 0;; ++n) {
        u32 next = look_once(pace, eager);
        if (in_submit && mutate::deadline_ignored_in_submit && kind_of(next) == step::expired) {
            pace.final_ = false;
            next = pack(step::idle);
        }
        if (kind_of(next) != step::idle || n + 1u >= port::looks_per_round) {
            return next;
        }
        port::pause();
    }
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
    u32* spurious = &state()->spurious[rank & 31u];
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
        completed -= port::load_relaxed_gpu(&state()->surplus);
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

template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::collect(const Group& group, u32 from) {
    const u32 begin = from & index_bits, rank = group.thread_rank();
    u32 count = 0, surplus = 0, run;
    if (is_shared) {
        group.sync(); // the leader's acquire of the lock covers every lane's look at the words
    }
    do {
        const u32 index = begin + count + rank;
        const u64 entry = completion(index);
        // The run of posted entries, counted in ranks from the first.
        const u32 bad = group.mask() & ~group.ballot(posted(entry, index));
        run = bad ? port::population(group.mask() & ((bad & (0u - bad)) - 1u)) : group.size();
        if (run != 0) {
            // F5: phase before the rest of the entry, before the payload and before the words; and all
            // entry loads before the CQ doorbell.
            if (!mutate::word_before_payload) {
                port::fence_sys_group(rank == 0);
            }
            const u32 cid = cid_of(entry, index);
            // Of two completions of one command in one look the first counts: both would find it pending.
            // Lanes beyond the run come after those in it.
            const bool repeated = rank_in(group.match(cid)) != 0 && !mutate::repeated_in_one_look;
            const bool owned = rank >= run || deliver(cid, static_cast<u32>(entry >> 49), repeated, rank);
            surplus += mutate::surplus_gives_room ? 0u : port::population(group.ballot(!owned));
            if (rank + 1u == run) {
                compare_sqhd(entry, index + 1u - surplus);
            }
        }
        count += run;
        group.sync(); // a smaller group looks again, and other lanes at the same words
    } while (group.size() < batch_max && run == group.size() && count < batch_max);
    trace_reap(rank == 0, begin, count, surplus);
    finish_collect(group, count, surplus);
}

// Exclusive: tells the controller how far completions were collected.
template <sharing Mode> WARPBELL_D void queue<Mode>::tell(bool leader) {
    static_assert(!is_shared, "a shared queue tells under its lock");
    if (leader) {
        ring_cq(static_cast<u32>(reaped()) - at_.untold, static_cast<u32>(reaped()));
    }
    at_.untold = 0;
}

// Tells the controller, if enough is untold, and unlocks. What was nobody's is told at once: so all that is
// untold are commands, and their number is what the reserved lack in room.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::finish_collect(const Group& group, u32 count, u32 surplus) {
    if (wide_cids() && group.is_leader()) {
        port::fence_sys(); // dword 1 of all entries before the CQ doorbell
    }
    const u64 threshold = mutate::lazy_cq_too_late ? 1ull << ref_.cq_shift : ref_.told_threshold;
    if constexpr (!is_shared) {
        at_.outstanding -= count - surplus;
        at_.untold += count;
        at_.surplus += surplus;
        if (at_.untold >= threshold || surplus != 0) {
            tell(group.is_leader());
        }
    } else if (group.is_leader()) {
        u64 told = port::load_relaxed_gpu(&state()->reap) & ~WARPBELL_REAP_LOCK;
        const u64 head = port::load_relaxed_gpu(&state()->head) + count;
        port::store_relaxed_gpu(&state()->head, head);
        const u32 nobodys = port::load_relaxed_gpu(&state()->surplus);
        if (surplus != 0) {
            port::store_relaxed_gpu(&state()->surplus, nobodys + surplus);
        }
        const u64 completed = head - nobodys - surplus;
        if (completed - told >= threshold || surplus != 0) {
            const u32 before = static_cast<u32>(told) + nobodys;
            told = completed;
            if (mutate::told_early) {
                port::store_release_gpu(&state()->reap, told | WARPBELL_REAP_LOCK);
            }
            ring_cq(before, static_cast<u32>(head));
        }
        // F6, one store: unlocks, and gives room; after the CQ doorbell, so that the controller never
        // sees a full queue and the next reaper's doorbell comes later.
        if (mutate::no_fence_unlock) {
            port::store_relaxed_gpu(&state()->reap, told);
        } else {
            port::store_release_gpu(&state()->reap, told);
        }
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::progress(const Group& group, pace& pace) {
    return (refusal_ & page_only) == 0 ? advance(group, pace) : progress_result::lost;
}

// For lanes with a seat. A waiter has one, or every token of its group has an answer at once.
template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::advance(const Group& group, pace& pace) {
    if (quarantine_ != 0) {
        rescan_quarantine();
    }
    const u32 next = group.broadcast(group.is_leader() ? look(pace, false, false) : 0u);
    switch (kind_of(next)) {
    case step::reap:
        collect(group, next);
        return progress_result::reaped;
    case step::expired:
        return progress_result::expired;
    case step::lost:
        refusal_ = status(code::queue_lost).bits;
        return progress_result::lost;
    default:
        return progress_result::idle;
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::reap(const Group& group) {
    u32 next = 0;
    // Of an exclusive queue without a seat nothing is outstanding.
    if (group.is_leader() && !(is_shared && (refusal_ & page_only) != 0)) {
        if constexpr (is_shared) {
            u64 seen = port::load_relaxed_gpu(&state()->reap);
            if (!(seen & WARPBELL_REAP_LOCK) &&
                ready(static_cast<u32>(port::load_relaxed_gpu(&state()->head)))) {
                next = lock_for_reap(seen);
            }
        } else if (at_.outstanding != 0 && ready(static_cast<u32>(reaped()))) {
            next = pack(step::reap, 0, reaped());
        }
    }
    next = group.broadcast(next);
    if (kind_of(next) != step::reap) {
        return progress_result::idle;
    }
    collect(group, next);
    return progress_result::reaped;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
