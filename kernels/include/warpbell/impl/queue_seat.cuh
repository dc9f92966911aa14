// Attaching and leaving. A lane has a seat: a word of host memory that says what it may still touch of the
// queue. By the seats the host knows when id, rings and words of a lost queue may be used again.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> WARPBELL_D bool queue<Mode>::fits(const warpbell_queue_ref& ref, u32 warp_slot) {
    return ref.abi_version == WARPBELL_ABI_VERSION && ref.size == sizeof(ref) && warp_slot < ref.warp_slots &&
           ref.sharing == static_cast<u32>(Mode);
}

// 0: nobody counts.
template <sharing Mode> WARPBELL_D u64 queue<Mode>::seats_of(const warpbell_queue_ref& ref) {
    return port::load_relaxed_sys(&reinterpret_cast<const warpbell_queue_host*>(ref.host)->seats);
}

// Takes this lane's seat, and returns the queue's state as it was afterwards. Either the host sees the seat
// when it looks at them, or this lane sees that the queue is given up: host and lane each store one word,
// then load the other's. A store before a load: acq_rel does not order that.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::take_seat(const warpbell_queue_ref& ref, u32 lane_id) {
    const u64 seats = seats_of(ref);
    if (seats != 0 && !mutate::seat_not_taken) {
        port::store_relaxed_sys(reinterpret_cast<u32*>(seats) + lane_id, WARPBELL_SEAT_TAKEN);
        if (!mutate::no_fence_seat) {
            port::fence_sc_sys();
        }
    }
    return port::load_relaxed_sys(&reinterpret_cast<const warpbell_queue_host*>(ref.host)->state);
}

// Release: whatever this lane did to rings, words and doorbells comes first.
template <sharing Mode>
WARPBELL_D void queue<Mode>::leave_seat(const warpbell_queue_ref& ref, u32 lane_id, u32 how) {
    const u64 seats = seats_of(ref);
    if (seats == 0 || mutate::seat_kept) {
        return;
    }
    u32* seat = reinterpret_cast<u32*>(seats) + lane_id;
    if (mutate::seat_left_early) {
        port::store_relaxed_sys(seat, how);
    } else {
        port::store_release_sys(seat, how);
    }
}

// The lane has a seat: what it knows of the queue, from the queue's memory.
template <sharing Mode> template <class Group> WARPBELL_D void queue<Mode>::begin(const Group& group) {
    first_cid_ = lane_id_ << lane_shift();
    free_ = quarantine_ = generation_ = refusal_ = 0;
    tag_ = io_token::tag(ref_.qid, ref_.epoch);
    trace_attach(ref_, lane_id_, group.is_leader());
    WARPBELL_NO_UNROLL
    for (u32 k = 0; k < 1u << ref_.token_shift; ++k) {
        u32 w = port::load_relaxed_gpu(word(lane_id_, k));
        u32 generation = w >> WARPBELL_WORD_GENERATION_SHIFT;
        if (generation > generation_) {
            generation_ = generation;
        }
        // 0xFFFF marks "no command" in error log entries: never issued.
        const u32 bit = wire_cid(k) == 0xffffu && !mutate::cid_ffff ? 0u : 1u << k;
        (is_pending(w) && !mutate::attach_frees_pending ? quarantine_ : free_) |= bit;
    }
    // What an earlier kernel gave up may have completed since: the host must not take the next command of
    // that id for given up, and have it aborted.
    if (!mutate::mask_of_before) {
        port::store_relaxed_sys(quarantine_word(), quarantine_);
    }
    if constexpr (is_shared) {
        at_.clear();
    } else {
        at_.tail = port::load_relaxed_gpu(&state()->exclusive_tail);
        const u64 head = port::load_relaxed_gpu(&state()->exclusive_head);
        at_.surplus = port::load_relaxed_gpu(&state()->surplus);
        at_.outstanding = static_cast<u32>(at_.tail - head) + at_.surplus;
        at_.unreported = static_cast<u32>(head - port::load_relaxed_gpu(&state()->exclusive_told));
        group.sync();
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_D queue<Mode>::queue(const Group& group, const warpbell_queue_ref& ref, u32 warp_slot)
    : ref_(ref), at_(), lane_id_(warp_slot * WARPBELL_WARP_LANES + port::lane()), first_cid_(0), free_(0),
      quarantine_(0), generation_(0), refusal_(status(code::invalid_field).bits | page_only | gone),
      tag_(no_tag) {
    if (!fits(ref_, warp_slot)) {
        return;
    }
    // All lanes or none: they look at the rings together.
    const bool lost = take_seat(ref_, lane_id_) != WARPBELL_QUEUE_RUNNING && !mutate::lost_ignored;
    if (group.ballot(lost) != 0) {
        refusal_ = 0;
        keep_page_only();
    } else {
        begin(group);
    }
    // One code for lanes with a seat and without: settle() tells them apart.
    tag_ = port::opaque(tag_);
}

// From now on the lane touches nothing but the host's page.
template <sharing Mode> WARPBELL_D void queue<Mode>::keep_page_only() {
    if ((refusal_ & page_only) == 0) {
        leave_seat(ref_, lane_id_, mutate::old_seat_left_first ? WARPBELL_SEAT_FREE : WARPBELL_SEAT_WAITING);
    }
    refusal_ = status(code::queue_lost).bits | page_only;
    free_ = quarantine_ = 0;
    tag_ = no_tag;
    at_.clear();
}

template <sharing Mode> WARPBELL_D void queue<Mode>::leave() {
    if ((refusal_ & gone) == 0) {
        leave_seat(ref_, lane_id_, WARPBELL_SEAT_FREE);
    }
    refusal_ = status(code::invalid_field).bits | page_only | gone;
    free_ = quarantine_ = 0;
    tag_ = no_tag;
}

template <sharing Mode> template <class Group> WARPBELL_D void queue<Mode>::detach(const Group& group) {
    if constexpr (!is_shared) {
        if (group.is_leader() && (refusal_ & page_only) == 0 && !mutate::exclusive_not_saved) {
            port::store_relaxed_gpu(&state()->exclusive_tail, at_.tail);
            port::store_relaxed_gpu(&state()->exclusive_head, reaped());
            port::store_relaxed_gpu(&state()->exclusive_told, reaped() - at_.unreported);
            port::store_relaxed_gpu(&state()->surplus, at_.surplus);
        }
        group.sync();
    }
    leave();
}

// By the leader: the successor's reference, 0 if there is none by then, or no_successor if none will come.
template <sharing Mode> WARPBELL_D u64 queue<Mode>::find_successor(u64 wait_ns) const {
    const u64 begin_ns = port::clock_ns();
    for (;;) {
        if (port::load_relaxed_sys(&host()->state) == WARPBELL_QUEUE_DEAD && !mutate::dead_ignored) {
            return no_successor;
        }
        const u64 successor = port::load_relaxed_sys(&host()->successor);
        if (successor != 0) {
            port::fence_sys(); // before its reference is read, by all lanes
            return successor;
        }
        if (wait_ns == 0 || port::clock_ns() - begin_ns >= wait_ns) {
            return 0;
        }
        port::pause();
    }
}

// To the newest queue in place of this one. The seat here is kept until there is one there.
template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::move_on(const Group& group, u64 wait_ns) {
    if ((refusal_ & gone) != 0) {
        return status::from_bits(refusal_ & 0xffffu);
    }
    const bool seated = (refusal_ & page_only) == 0;
    const u32 now = group.is_leader() ? port::load_relaxed_sys(&host()->state) : 0;
    if (seated && group.broadcast(now) == WARPBELL_QUEUE_RUNNING) {
        return status();
    }
    keep_page_only();
    const u64 begin_ns = port::clock_ns();
    for (;;) {
        const u64 passed_ns = port::clock_ns() - begin_ns;
        const u64 left_ns = passed_ns < wait_ns ? wait_ns - passed_ns : 0;
        const u64 found = group.broadcast(group.is_leader() ? find_successor(left_ns) : 0);
        if (found == 0) {
            return code::queue_lost;
        }
        if (found == no_successor) {
            refusal_ = status(code::ssd_lost).bits | page_only;
            return code::ssd_lost;
        }
        group.sync(); // the leader's acquire covers every lane's look at the reference
        const auto next = port::load_struct<warpbell_queue_ref>(found);
        if (!fits(next, lane_id_ / WARPBELL_WARP_LANES)) {
            return code::invalid_field;
        }
        const u32 running = take_seat(next, lane_id_);
        if (group.ballot(running != WARPBELL_QUEUE_RUNNING) == 0) {
            leave_seat(ref_, lane_id_, WARPBELL_SEAT_FREE);
            // Read once more: while this lane was on its way, the host may have used the slot for a later
            // queue. From the seat on, it does not.
            port::fence_sys();
            ref_ = port::load_struct<warpbell_queue_ref>(found);
            begin(group);
            return status();
        }
        // Lost as well, by now. The host names the next one on this queue's page.
        leave_seat(next, lane_id_, WARPBELL_SEAT_FREE);
        if (group.broadcast(left_ns) == 0) {
            return code::queue_lost;
        }
        port::pause();
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::reattach(const Group& group, u64 deadline_ns) {
    return move_on(group, deadline(deadline_ns));
}

template <sharing Mode> template <class Group> WARPBELL_D status queue<Mode>::follow(const Group& group) {
    return move_on(group, 0);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
