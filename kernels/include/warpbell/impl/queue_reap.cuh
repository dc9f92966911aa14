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
template <sharing Mode> WARPBELL_D bool queue<Mode>::worth_reaping(pace& pace, u32 head, u32 target) const {
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
    if (pace.final_) {
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

template <sharing Mode> WARPBELL_D u32 queue<Mode>::look_once(pace& pace) {
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
    u64 head, tail, seen = 0;
    if constexpr (is_shared) {
        seen = port::load_relaxed_gpu(&state()->reap);
        if (seen & WARPBELL_REAP_LOCK) {
            return pack(pace.final_ ? step::expired : step::idle);
        }
        head = port::load_relaxed_gpu(&state()->head);
        tail = port::load_relaxed_gpu(&state()->ticket) & ~WARPBELL_TICKET_CLOSED;
    } else {
        head = at_.head;
        tail = at_.tail;
    }
    const int64_t outstanding = static_cast<int64_t>(tail - head);
    if (outstanding > 0) {
        const u32 target = outstanding < batch_max ? static_cast<u32>(outstanding) : batch_max;
        if (worth_reaping(pace, static_cast<u32>(head), target)) {
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
// own words, which another warp may have completed.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::look(pace& pace, bool in_submit) {
    if (in_submit && mutate::no_reap_in_submit) {
        port::pause();
        return pack(step::idle);
    }
    if (!in_submit && mutate::try_once && (pace.looks_ != 0 || pace.end_ns_ != 0)) {
        port::pause();
        return pack(step::idle);
    }
    for (u32 n = 0;; ++n) {
        u32 next = look_once(pace);
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

// One completion into its command's word.
template <sharing Mode> WARPBELL_D void queue<Mode>::deliver(u64 entry, u32 index, u32 rank) {
    const u32 dw3 = static_cast<u32>(entry >> 32);
    u32 cid = dw3 & 0xffffu;
    if (wide_cids()) {
        // Dword 1 has bits 31:16; after F5, and before the second fence that finish_collect has for it.
        cid |= port::load_relaxed_sys(reinterpret_cast<const u32*>(ref_.cq) + (index & cq_mask()) * 4u + 1u)
               << 16;
    }
    const u32 lane_id = (cid >> lane_shift()) ^ (mutate::status_of_neighbour ? 1u : 0u);
    const u32 k = cid & ((1u << lane_shift()) - 1u);
    port::count_entry_reaped();
    if (lane_id < ref_.warp_slots * WARPBELL_WARP_LANES && k >> ref_.token_shift == 0) {
        u32* w = word(lane_id, k);
        const u32 armed = port::load_relaxed_gpu(w);
        if (armed & WARPBELL_WORD_PENDING || mutate::spurious_accepted) {
            port::store_relaxed_gpu(w, (armed & ~0xffffu) | dw3 >> 17);
            return;
        }
    }
    // Nobody waits for it: a second completion of a command, or an id we never issued.
    u32* spurious = &state()->spurious[rank & 31u];
    port::store_relaxed_gpu(spurious, port::load_relaxed_gpu(spurious) + 1u);
}

// SQHD decides nothing here, so a controller that reports it wrongly does no harm; it is counted. What
// it says was fetched must lie between what has completed and what was submitted.
template <sharing Mode> WARPBELL_D void queue<Mode>::compare_sqhd(u64 entry, u32 index) {
    u64 tail;
    if constexpr (is_shared) {
        tail = port::load_relaxed_gpu(&state()->ticket);
    } else {
        tail = at_.tail;
    }
    const u32 completed = index + 1u;
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
    u32 count = 0, run;
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
            if (rank < run) {
                deliver(entry, index, rank);
            }
            if (rank + 1u == run) {
                compare_sqhd(entry, index);
            }
        }
        count += run;
    } while (run == group.size() && count < batch_max);
    group.sync();
    finish_collect(group, count);
}

// Exclusive: tells the controller how far completions were collected.
template <sharing Mode> WARPBELL_D void queue<Mode>::tell(bool leader) {
    static_assert(!is_shared, "a shared queue tells under its lock");
    const u32 before = static_cast<u32>(at_.told);
    at_.told = at_.head;
    if (leader) {
        ring_cq(before, static_cast<u32>(at_.head));
    }
}

// Tells the controller, if enough is untold, and unlocks.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::finish_collect(const Group& group, u32 count) {
    if (wide_cids() && group.is_leader()) {
        port::fence_sys(); // dword 1 of all entries before the CQ doorbell
    }
    const u64 threshold = mutate::lazy_cq_too_late ? 1ull << ref_.cq_shift : ref_.told_threshold;
    if constexpr (!is_shared) {
        at_.head += count;
        if (at_.head - at_.told >= threshold) {
            tell(group.is_leader());
        }
    } else if (group.is_leader()) {
        u64 told = port::load_relaxed_gpu(&state()->reap) & ~WARPBELL_REAP_LOCK;
        const u64 head = port::load_relaxed_gpu(&state()->head) + count;
        port::store_relaxed_gpu(&state()->head, head);
        if (head - told >= threshold) {
            const u32 before = static_cast<u32>(told);
            told = head;
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
    if (quarantine_ != 0) {
        rescan_quarantine();
    }
    const u32 next = group.broadcast(group.is_leader() ? look(pace, false) : 0u);
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
    if (group.is_leader()) {
        if constexpr (is_shared) {
            u64 seen = port::load_relaxed_gpu(&state()->reap);
            if (!(seen & WARPBELL_REAP_LOCK) &&
                ready(static_cast<u32>(port::load_relaxed_gpu(&state()->head)))) {
                next = lock_for_reap(seen);
            }
        } else if (at_.head != at_.tail && ready(static_cast<u32>(at_.head))) {
            next = pack(step::reap, 0, at_.head);
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
