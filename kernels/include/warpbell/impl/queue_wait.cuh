// Waiting: each lane's own word, and what happens at a deadline.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Whether the token has its answer; consumes it then.
template <sharing Mode> WARPBELL_D bool queue<Mode>::settle(io_token& token, status& result) {
    const u32 k = id_of(token);
    const bool foreign =
        mutate::old_epoch_accepted ? !token.in_flight() : static_cast<u32>(token.bits() >> 32) != tag_;
    if (foreign || k >> ref_.token_shift != 0) {
        // Refused at submission, empty, of a queue that this lane had before, or another lane's.
        const status in_flight = foreign ? code::queue_lost : code::invalid_field;
        result = token.refusal_or(in_flight);
        trace_refuse(result.bits);
        token.reset();
        return true;
    }
    port::count_poll();
    const u32 w = port::load_relaxed_gpu(word(lane_id_, k));
    // A copy of a token whose command was answered: never a wait, and never an answer.
    const bool recycled =
        (w >> WARPBELL_SLOT_GENERATION_SHIFT) != token.generation() && !mutate::token_of_recycled_id;
    const bool stale = (recycled || ((free_ | quarantine_) >> k & 1u)) && !mutate::stale_token_accepted;
    if (!stale && is_pending(w)) {
        return false;
    }
    result = stale ? status(code::stale_token) : status::from_wire(w);
    if (!stale) {
        // Only here does an id that was in flight become free: its owner has seen its completion.
        free_ |= mutate::free_by_other ? (1u << ref_.token_shift) - 1u : 1u << k;
        trace_complete(wire_cid(k), token.generation(), w & WARPBELL_SLOT_STATUS);
    }
    if (stale || !mutate::status_twice) {
        token.reset();
    }
    return true;
}

template <sharing Mode> WARPBELL_D bool queue<Mode>::is_answered(const io_token& token) const {
    const u32 k = id_of(token);
    if (static_cast<u32>(token.bits() >> 32) != tag_ || k >> ref_.token_shift != 0) {
        return true; // for a reason that the token has, or by its loss
    }
    const u32 w = port::load_relaxed_gpu(word(lane_id_, k));
    return (w >> WARPBELL_SLOT_GENERATION_SHIFT) != token.generation() || ((free_ | quarantine_) >> k & 1u) ||
           !is_pending(w);
}

// The deadline has passed with the command in flight. The controller may still answer, and still write
// to the buffer, so the id stays out of use; the word is not touched, its writer is the reaper. The
// host is told by state, not by messages: nothing can overflow.
template <sharing Mode> WARPBELL_D status queue<Mode>::give_up(io_token& token) {
    const u32 bit = 1u << id_of(token);
    trace_complete(wire_cid(id_of(token)), token.generation(), status(code::timed_out).bits);
    token.reset();
    if (mutate::reuse_at_timeout) {
        free_ |= bit;
        return code::timed_out;
    }
    quarantine_ |= bit;
    u32* alarm = &reinterpret_cast<warpbell_queue_host*>(ref_.host)->alarm;
    if (mutate::alarm_before_quarantine) {
        port::store_release_sys(alarm, 1);
        port::fence_sys();
    }
    port::store_relaxed_sys(quarantine_word(), quarantine_);
    if (!mutate::alarm_before_quarantine) {
        port::store_release_sys(alarm, 1);
    }
    return code::timed_out;
}

template <sharing Mode> WARPBELL_D status queue<Mode>::abandon(io_token&& token) {
    if (const optional<status> done = try_wait(token)) {
        return *done;
    }
    return refusal_ ? lose(token) : give_up(token);
}

// The queue is gone, and the id dies with it. Should its completion come all the same, before the host has
// deleted the queue, no copy of the token may be answered with it: this was the one status.
template <sharing Mode> WARPBELL_D status queue<Mode>::lose(io_token& token) {
    if (!mutate::id_lives_on_after_loss) {
        quarantine_ |= 1u << id_of(token);
    }
    trace_complete(wire_cid(id_of(token)), token.generation(), status(code::queue_lost).bits);
    token.reset();
    return code::queue_lost;
}

template <sharing Mode> WARPBELL_D optional<status> queue<Mode>::try_wait(io_token& token) {
    return try_wait(this_thread(), token);
}

template <sharing Mode>
template <class Group>
WARPBELL_D optional<status> queue<Mode>::try_wait(const Group& group, io_token& token) {
    status result;
    if (!settle(token, result)) {
        return nullopt;
    }
    // F4: payload after status; the reaper may have been on another processor.
    if (is_shared) {
        port::fence_gpu_group(group.is_leader());
    }
    return result;
}

// `Some`: only until a lane can go on; else until all lanes are answered.
template <sharing Mode>
template <bool Some, class Group>
WARPBELL_D progress_result queue<Mode>::wait_until(const Group& group, io_token& token, status& result,
                                                   bool more, backoff& backoff) {
    bool waiting = Some ? token.valid() && !settle(token, result) : !settle(token, result);
    // Lanes that can go on. Without a hazard slot there is nothing to poll.
    u32 free = Some ? group.ballot(!waiting && more && (refusal_ & page_only) == 0) : 0;
    step did = step::idle;
    while ((free | group.ballot(waiting)) != 0) {
        do { // again and again, for as long as the group waits: nobody wakes it up
            did = advance(group, backoff);
        } while (did == step::idle && free == 0);
        if (waiting) {
            waiting = !settle(token, result);
        }
        if (waiting && (did == step::expired || did == step::lost)) {
            result = did == step::expired ? give_up(token) : lose(token);
            waiting = false;
        }
        free = Some ? free | group.ballot(!waiting && (more || !result.ok())) : 0;
        if (free != 0) {
            break;
        }
    }
    if (mutate::no_fence_unlock) {
        release_poller(backoff, true);
    }
    if (is_shared) {
        port::fence_gpu_group(group.is_leader()); // F4, once for all; and F6 of a poller that leaves
    }
    release_poller(backoff, true);
    return did == step::expired ? progress_result::expired
           : did == step::lost  ? progress_result::lost
                                : progress_result::reaped;
}

template <sharing Mode>
template <class Group>
WARPBELL_D progress_result queue<Mode>::wait_some(const Group& group, io_token& token, status& result,
                                                  bool more, backoff& backoff) {
    return wait_until<true>(group, token, result, more, backoff);
}

template <sharing Mode>
template <class Group>
WARPBELL_D status queue<Mode>::wait(const Group& group, io_token&& token, u64 timeout_ns) {
    status result;
    backoff backoff(timeout_ns);
    (void)wait_until<false>(group, token, result, false, backoff);
    return result;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
