// Completion: what a poll has found goes to its commands, and is reported. Under the lock, where there is
// one.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> WARPBELL_D u32 queue<Mode>::cid_of(u64 entry, u32 index) const {
    const u32 cid = static_cast<u32>(entry >> 32) & 0xffffu;
    if (!wide_cids()) {
        return cid;
    }
    // Dword 1 has bits 31:16. After F5; and as it acquires too, before the CQ doorbell.
    return cid | port::load_acquire_sys(reinterpret_cast<const u32*>(ref_.cq) + (index & cq_mask()) * 4u + 1u)
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
        port::issued_with_last(is_shared); // of the view
        const u32 armed = port::load_relaxed_gpu(w);
        port::issued_with_last(false);
        if (armed & WARPBELL_SLOT_PENDING || mutate::spurious_accepted) {
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
template <sharing Mode> WARPBELL_D void queue<Mode>::compare_sqhd(u64 entry, u32 completed, const view& now) {
    completed -= now.surplus;
    if (((static_cast<u32>(entry) - completed) & sq_mask()) >
        ((static_cast<u32>(now.ticket) - completed) & index_bits)) {
        u32* count = &state()->sqhd_mismatch;
        port::store_relaxed_gpu(count, port::load_relaxed_gpu(count) + 1u);
    }
}

// Under the lock. After the entries were acquired: the ticket is then past all that they answer.
template <sharing Mode> WARPBELL_D typename queue<Mode>::view queue<Mode>::view_now() const {
    view now = {};
    if constexpr (is_shared) {
        now.ticket = port::load_relaxed_gpu(&state()->ticket);
        port::issued_with_last(true);
        now.surplus = port::load_relaxed_gpu(&state()->surplus);
        port::issued_with_last(false);
    } else {
        now.ticket = at_.tail;
        now.surplus = at_.surplus;
    }
    return now;
}

// Lane r loads entry first + r: one round trip to the ring shows all that is posted. The length of the run
// that begins at `first`.
// F5, an acquire load: the phase before the rest of the entry and before the payload; and all entry loads
// before the CQ doorbell, as each lane's is over before the lanes meet.
template <sharing Mode>
template <class Group>
WARPBELL_D u32 queue<Mode>::load_run(const Group& group, u32 first, u64 (&entry)[1]) {
    const u32 index = first + group.thread_rank();
    entry[0] = mutate::word_before_payload ? completion(index) : acquired(index);
    // Counted in ranks from the first: the lanes below the lowest bad one, or all if there is none.
    const u32 bad = group.mask() & ~group.ballot(posted(entry[0], index));
    return port::population(group.mask() & ((bad & (0u - bad)) - 1u));
}

// The same by a thread alone: several entries in one round trip. Of those the first is acquired; where more
// have come, so is the last: the controller wrote it, and its payload, after the others.
template <sharing Mode>
WARPBELL_D u32 queue<Mode>::load_run(const this_thread_t&, u32 first, u64 (&entry)[port::entries_together]) {
    for (u32 i = port::entries_together - 1u; i != 0; --i) {
        entry[i] = completion(first + i);
        port::issued_with_last(true);
    }
    entry[0] = mutate::word_before_payload ? completion(first) : acquired(first);
    port::issued_with_last(false);
    u32 run = 0;
    for (u32 i = 0; i < port::entries_together; ++i) {
        run += run == i && posted(entry[i], first + i) ? 1u : 0u;
    }
    if (run > 1u && !mutate::word_before_payload) {
        (void)acquired(first + run - 1u);
    }
    return run;
}

// Where data does not lie in the memory of its completion: after the phases, before the words. What the
// controller answers to a read does not overtake what it wrote before on the same path (PCIe 6.0, 2.4.1:
// completions do not pass posted requests), so once a register was read, data in the reader's own memory is
// there. Data elsewhere has left that path by then; a read of that memory stays behind it, as reads do not
// pass posted requests either. The leader reads for all lanes, each of which has its entry. False, in every
// lane: no controller answered, and nothing may be delivered.
template <sharing Mode>
template <class Group>
WARPBELL_NOINLINE bool queue<Mode>::flush_data(const Group& group) {
    const u64 status = port::load_relaxed_gpu(&state()->flush_register);
    const u64 data = port::load_relaxed_gpu(&state()->flush_data);
    const bool reads = group.is_leader() && !mutate::no_flush;
    u32 answer = port::load_register_if(reads, status, 0);
    // Needs the register's value: begun when that read has ended.
    const bool both = reads && answer != ~0u && data != 0 && !mutate::flush_register_alone;
    answer = port::load_register_if(both, data, answer);
    // Needs the last value: what all lanes do next begins when both reads have ended.
    const bool gone = answer == ~0u && !mutate::flush_unanswered;
    return group.ballot(gone) == 0;
}

// The run of posted entries from index `first` on, to their commands' words.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::deliver_run(const Group& group, u32 first, u32 run, const u64 (&entry)[1],
                                         const view& now, u32& surplus) {
    const u32 rank = group.thread_rank(), index = first + rank;
    const u32 cid = cid_of(entry[0], index);
    // Of two completions of one command in one run the first counts: both would find it pending.
    // Lanes beyond the run come after those in it.
    const bool repeated = (group.match(cid) & port::lanes_below()) != 0 && !mutate::repeated_in_one_poll;
    const bool owned = rank >= run || deliver(cid, static_cast<u32>(entry[0] >> 49), repeated, rank);
    surplus += mutate::surplus_gives_room ? 0u : port::population(group.ballot(!owned));
    if (rank + 1u == run) {
        compare_sqhd(entry[0], index + 1u - surplus, now);
    }
}

template <sharing Mode>
WARPBELL_D void queue<Mode>::deliver_run(const this_thread_t&, u32 first, u32 run,
                                         u64 (&entry)[port::entries_together], const view& now,
                                         u32& surplus) {
    WARPBELL_NO_UNROLL
    for (u32 i = 0; i < run; ++i) {
        const u32 cid = cid_of(entry[0], first + i);
        const bool owned = deliver(cid, static_cast<u32>(entry[0] >> 49), false, 0);
        surplus += owned || mutate::surplus_gives_room ? 0u : 1u;
        if (i + 1u == run) {
            compare_sqhd(entry[0], first + run - surplus, now);
        }
        // No indexing by `i`: the entries stay in registers.
        for (u32 k = 1; k < port::entries_together; ++k) {
            entry[k - 1u] = entry[k];
        }
    }
}

// Everything that is posted from index `from` on, as far as a warp's worth. False: nothing is. `keep`: the
// lock, where there is one. `report_all`: all that was collected is reported to the controller.
template <sharing Mode>
template <class Group>
WARPBELL_D bool queue<Mode>::collect(const Group& group, u32 from, bool keep, bool report_all,
                                     backoff& backoff) {
    const u32 begin = from & index_bits, most = group.size() * detail::entries_per_lane<Group>;
    const bool flushes = (count_of(from) & flushes_data) != 0;
    u64 entry[detail::entries_per_lane<Group>];
    const bool always = !keep || report_all;
    u32 count = 0, surplus = 0, run;
    view now = {};
    do {
        run = load_run(group, begin + count, entry);
        const bool flush = run != 0 && flushes;
        if (flush) {
            run = flush_data(group) ? run : 0u;
        }
        // What this lane has acquired, and read, before the words: whoever reads them is on another
        // processor. And before data is loaded: a cache may have some of before.
        if ((is_shared || flush) && run != 0 && !mutate::word_before_payload) {
            port::fence_gpu_group(group.thread_rank() == 0);
        }
        if (run != 0 || always) {
            now = view_now();
        }
        if (run != 0) {
            deliver_run(group, begin + count, run, entry, now, surplus);
            count += run;
            group.sync(); // a smaller group goes on, and other lanes at the same words
        }
    } while (most < batch_max && run == most && count < batch_max);
    if (count != 0 || always) {
        trace_reap(group.thread_rank() == 0, begin, count, surplus);
        finish_collect(group, now, count, surplus, keep, report_all, backoff);
    }
    if (is_shared && surplus != 0) {
        group.sync(); // the leader's sum before any lane's next comparison
    }
    return count != 0;
}

// Exclusive: reports to the controller how far completions were collected.
template <sharing Mode> WARPBELL_D void queue<Mode>::report(bool leader) {
    static_assert(!is_shared, "a shared queue reports under its lock");
    if (leader) {
        ring_cq(static_cast<u32>(reaped()) - at_.unreported, static_cast<u32>(reaped()));
    }
    at_.unreported = 0;
}

// Reports to the controller, if there is enough to report. What was nobody's is reported at once: so all that
// is not are commands, and their number is what the reserved lack in room.
template <sharing Mode>
template <class Group>
WARPBELL_D void queue<Mode>::finish_collect(const Group& group, const view& now, u32 count, u32 surplus,
                                            bool keep, bool report_all, backoff& backoff) {
    const u32 batch = mutate::lazy_cq_too_late ? 1u << ref_.sq_shift
                      : report_all             ? 1u
                                               : ref_.cq_doorbell_batch;
    if constexpr (!is_shared) {
        at_.outstanding -= count - surplus;
        at_.unreported += count;
        at_.surplus += surplus;
        if (at_.unreported >= batch || surplus != 0) {
            report(group.is_leader());
        }
    } else if (group.is_leader()) {
        report_if_due(now, count, surplus, keep, report_all, batch, backoff);
    }
}

// Shared: by the lock's holder, who alone writes what is reported.
template <sharing Mode>
WARPBELL_D void queue<Mode>::report_if_due(const view& now, u32 count, u32 surplus, bool keep,
                                           bool report_all, u32 batch, backoff& backoff) {
    const u64 reported = backoff.reported_;
    // No more lies between the two than 32 bits can count.
    const u64 head = reported + (backoff.head_ - static_cast<u32>(reported)) + count;
    // Little room is left: who comes next would wait for room that there is. Low halves suffice: what is
    // reserved and not reported is less than a ring.
    const u32 reserved = static_cast<u32>(now.ticket - reported);
    const bool scarce = (reserved + port::room_wanted) >> ref_.sq_shift != 0 && !mutate::lazy_cq_too_late;
    if (count != 0 || !keep) { // a poller without room comes here again and again
        port::store_relaxed_gpu(&state()->head, head);
    }
    backoff.head_ = static_cast<u32>(head);
    if (surplus != 0) {
        port::store_relaxed_gpu(&state()->surplus, now.surplus + surplus);
    }
    const u32 unreported = static_cast<u32>(head - reported) - now.surplus - surplus;
    const bool due = unreported >= (scarce ? 1u : batch) || surplus != 0;
    if (due) {
        if (mutate::reported_early) {
            port::store_release_gpu(&state()->reap, (reported + unreported) | WARPBELL_REAP_LOCK);
        }
        ring_cq(static_cast<u32>(reported) + now.surplus, static_cast<u32>(head));
    }
    backoff.reported_ = reported + (due ? unreported : 0u);
    backoff.owes_room_ = backoff.owes_room_ || due;
    if (!keep) {
        publish_room(backoff.reported_, false);
    } else if (report_all) {
        give_room(backoff);
    }
}

// Exclusive: nothing will come.
template <sharing Mode> WARPBELL_D bool queue<Mode>::nothing_outstanding() const {
    if constexpr (is_shared) {
        return false;
    } else {
        return at_.outstanding == 0;
    }
}

template <sharing Mode> WARPBELL_D u32 queue<Mode>::answered() const {
    if ((refusal_ & page_only) != 0) {
        return ~0u; // by the loss of the queue, whose memory may be gone
    }
    const u32 ids = (2u << ((1u << ref_.token_shift) - 1u)) - 1u;
    u32 found = 0;
    WARPBELL_NO_UNROLL
    for (u32 left = ids & ~(free_ | quarantine_); left != 0; left &= left - 1u) {
        const u32 k = port::lowest(left);
        const bool issued = wire_cid(k) != 0xffffu;
        const bool is = issued && !is_pending(port::load_relaxed_gpu(word(lane_id_, k)));
        found |= is ? 1u << k : 0u;
    }
    return found;
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::progress(const Group& group, backoff& backoff, u32 polls) {
    if ((refusal_ & page_only) != 0) {
        return progress_result::lost;
    }
    progress_result result = progress_result::idle;
    const bool is_new = backoff.end_ns_ == 0;
    WARPBELL_NO_UNROLL
    for (u32 n = 0; n < polls; ++n) {
        // A backoff may live for this call alone: its last poll asks the host for the queue's state.
        if (is_new && n != 0 && n + 1u == polls && result == progress_result::idle) {
            backoff.polls_ = port::polls_per_state() - port::polls_per_clock / 2u - 1u;
        }
        const step did = poll_ring(group, backoff, false);
        if (did == step::expired || did == step::lost) {
            result = did == step::lost ? progress_result::lost : progress_result::expired;
            break;
        }
        if (did == step::reap || did == step::others) {
            // Of an exclusive queue every command is the group's.
            const bool any = !is_shared || group.ballot(answered() != 0) != 0;
            result = any || did == step::reap ? progress_result::reaped : result;
            if (any) {
                break;
            }
        } else if (nothing_outstanding()) {
            break;
        }
    }
    release_poller(backoff, false);
    return result;
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::reap(const Group& group) {
    backoff backoff;
    u32 next = pack(step::idle);
    // Of an exclusive queue without a hazard slot nothing is outstanding.
    if (group.is_leader() && !(is_shared && (refusal_ & page_only) != 0)) {
        if constexpr (is_shared) {
            // The lock only where there is something: a poll that finds nothing costs no atomic. The head may
            // have moved by then.
            // Where take_lock puts it: no register is zeroed for where that fails.
            const u64 seen = backoff.reported_ = port::load_relaxed_gpu(&state()->reap);
            const u64* head = &state()->head;
            if ((seen & WARPBELL_REAP_LOCK) == 0 && ready(static_cast<u32>(port::load_relaxed_gpu(head))) &&
                take_lock(seen, backoff)) {
                backoff.head_ = static_cast<u32>(port::load_relaxed_gpu(head));
                next = pack_poll(backoff.head_);
            }
        } else if (at_.outstanding != 0 && ready(static_cast<u32>(reaped()))) {
            next = pack_poll(reaped());
        }
    }
    next = group.broadcast(next);
    if (next == pack(step::idle)) {
        return progress_result::idle;
    }
    if (is_shared) {
        group.sync(); // the leader's acquire of the lock covers every lane's words
    }
    const bool any = collect(group, next, mutate::lock_kept, false, backoff);
    return any ? progress_result::reaped : progress_result::idle;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
