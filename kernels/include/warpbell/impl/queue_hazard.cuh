// Attaching and leaving. A lane has a hazard slot: a word of host memory that says what it may still touch of
// the queue. By the hazard slots the host knows when id, rings and words of a lost queue may be used again.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> WARPBELL_D bool queue<Mode>::fits(const warpbell_queue_ref& ref, u32 warp_slot) {
    return ref.abi_version == WARPBELL_ABI_VERSION && ref.size == sizeof(ref) && warp_slot < ref.warp_slots &&
           ref.sharing == static_cast<u32>(Mode) && ref.cq_shift == ref.sq_shift;
}

// 0: nobody counts. `host`: where the queue's warpbell_queue_host lies.
template <sharing Mode> WARPBELL_D u64 queue<Mode>::hazards_of(u64 host) {
    return port::load_relaxed_sys(&reinterpret_cast<const warpbell_queue_host*>(host)->hazards);
}

// Takes this lane's hazard slot, and returns the queue's state as it was afterwards. Either the host sees the
// hazard slot when it looks at them, or this lane sees that the queue is given up: host and lane each store
// one word, then load the other's. A store before a load: acq_rel does not order that.
template <sharing Mode> WARPBELL_D u32 queue<Mode>::take_hazard(u64 host, u32 lane_id) {
    const u64 hazards = hazards_of(host);
    if (hazards != 0 && !mutate::hazard_not_taken) {
        port::store_relaxed_sys(reinterpret_cast<u32*>(hazards) + lane_id, WARPBELL_HAZARD_TAKEN);
        if (!mutate::no_fence_hazard) {
            port::fence_sc_sys();
        }
    }
    return port::load_relaxed_sys(&reinterpret_cast<const warpbell_queue_host*>(host)->state);
}

// Release: whatever this lane did to rings, words and doorbells comes first.
template <sharing Mode> WARPBELL_D void queue<Mode>::leave_hazard(u64 host, u32 lane_id, u32 how) {
    const u64 hazards = hazards_of(host);
    if (hazards == 0 || mutate::hazard_kept) {
        return;
    }
    u32* hazard = reinterpret_cast<u32*>(hazards) + lane_id;
    if (mutate::hazard_left_early) {
        port::store_relaxed_sys(hazard, how);
    } else {
        port::store_release_sys(hazard, how);
    }
}

// The lane has a hazard slot: what it knows of the queue, from the queue's memory.
template <sharing Mode> template <class Group> WARPBELL_D void queue<Mode>::begin(const Group& group) {
    first_cid_ = lane_id_ << lane_shift();
    free_ = quarantine_ = generation_ = refusal_ = 0;
    tag_ = io_token::tag(ref_.qid, ref_.epoch);
    trace_attach(ref_, lane_id_, group.is_leader());
    // Alike in all lanes, and known to be: they leave the loop together.
    const u32 ids = group.broadcast(1u << ref_.token_shift);
    WARPBELL_NO_UNROLL
    for (u32 k = 0; k < ids; ++k) {
        u32 w = port::load_relaxed_gpu(word(lane_id_, k));
        u32 generation = w >> WARPBELL_SLOT_GENERATION_SHIFT;
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
        at_.unreported = static_cast<u32>(head - port::load_relaxed_gpu(&state()->exclusive_reported));
        group.sync();
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_NOINLINE void queue<Mode>::attach(const Group& group, const warpbell_queue_ref& ref, u32 warp_slot) {
    ref_.keep(ref);
    lane_id_ = warp_slot * WARPBELL_WARP_LANES + port::lane();
    at_.clear();
    first_cid_ = free_ = quarantine_ = generation_ = 0;
    refusal_ = status(code::invalid_field).bits | page_only | gone;
    tag_ = no_tag;
    if (group.ballot(!fits(ref, warp_slot)) == 0) {
        // All lanes or none: they look at the rings together.
        const bool lost = take_hazard(ref_.host, lane_id_) != WARPBELL_QUEUE_RUNNING && !mutate::lost_ignored;
        if (group.ballot(lost) != 0) {
            refusal_ = 0;
            keep_page_only();
        } else {
            begin(group);
        }
    }
    // One code for lanes with a hazard slot and without: settle() tells them apart.
    tag_ = port::opaque(tag_);
}

// From now on the lane touches nothing but the host's page.
template <sharing Mode> WARPBELL_D void queue<Mode>::keep_page_only() {
    if ((refusal_ & page_only) == 0) {
        leave_hazard(ref_.host, lane_id_,
                     mutate::old_hazard_left_first ? WARPBELL_HAZARD_FREE : WARPBELL_HAZARD_WAITING);
    }
    refusal_ = status(code::queue_lost).bits | page_only;
    free_ = quarantine_ = 0;
    tag_ = no_tag;
    at_.clear();
}

template <sharing Mode> WARPBELL_NOINLINE void queue<Mode>::leave() {
    if ((refusal_ & gone) == 0) {
        leave_hazard(ref_.host, lane_id_, WARPBELL_HAZARD_FREE);
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
            port::store_relaxed_gpu(&state()->exclusive_reported, reaped() - at_.unreported);
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

// To the newest queue in place of this one. The hazard slot here is kept until there is one there.
template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::switch_over(const Group& group, u64 wait_ns) {
    if ((refusal_ & gone) != 0) {
        return status::from_bits(refusal_ & 0xffffu);
    }
    const bool held = (refusal_ & page_only) == 0;
    const u32 now = group.is_leader() ? port::load_relaxed_sys(&host()->state) : 0;
    if (held && group.broadcast(now) == WARPBELL_QUEUE_RUNNING) {
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
        // One copy: until this lane has its hazard slot there, the host may write another queue's.
        const auto next = port::load_struct<warpbell_queue_ref>(found);
        // Nothing is wrong with the command: there is no queue for it.
        if (!fits(next, lane_id_ / WARPBELL_WARP_LANES)) {
            return code::queue_lost;
        }
        const u32 running = take_hazard(next.host, lane_id_);
        if (group.ballot(running != WARPBELL_QUEUE_RUNNING) == 0) {
            leave_hazard(ref_.host, lane_id_, WARPBELL_HAZARD_FREE);
            // Read once more: while this lane was on its way, the host may have used the slot for a later
            // queue. From the hazard slot on, it does not.
            port::fence_sys();
            ref_.keep(port::struct_at<warpbell_queue_ref>(found));
            begin(group);
            return status();
        }
        // Lost as well, by now. The host names the next one on this queue's page.
        leave_hazard(next.host, lane_id_, WARPBELL_HAZARD_FREE);
        if (group.broadcast(left_ns) == 0) {
            return code::queue_lost;
        }
        port::pause();
    }
}

template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::switch_to_successor(const Group& group, u64 timeout_ns) {
    return switch_over(group, deadline(timeout_ns));
}

template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::try_switch_to_successor(const Group& group) {
    return switch_over(group, 0);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
