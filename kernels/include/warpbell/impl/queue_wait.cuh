// Waiting: each lane's own word, and what happens at a deadline.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Whether the token has its answer; consumes it then.
template <sharing Mode> WARPBELL_D bool queue<Mode>::settle(io_token& token, status& result) {
    const u32 k = id(token);
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
    const bool unused = ((free_ | quarantine_) >> k & 1u) != 0;
    // Without a branch for each: what follows for all lanes would be compiled for lanes apart.
    const u32 stale = port::opaque((recycled | unused) && !mutate::stale_token_accepted ? 1u : 0u);
    if ((stale | (is_pending(w) ? 0u : 1u)) == 0) {
        return false;
    }
    result = stale != 0 ? status(code::stale_token) : status::from_wire(w);
    // Only here does an id that was in flight become free: its owner has seen its completion.
    const u32 freed = mutate::free_by_other ? (1u << ref_.token_shift) - 1u : 1u << k;
    free_ |= stale != 0 ? 0u : freed;
    if (stale == 0) {
        trace_complete(wire_cid(k), token.generation(), w & WARPBELL_SLOT_STATUS);
    }
    if (stale != 0 || !mutate::status_twice) {
        token.reset();
    }
    return true;
}

template <sharing Mode> WARPBELL_D bool queue<Mode>::is_answered(const io_token& token) const {
    const u32 k = id(token);
    if (static_cast<u32>(token.bits() >> 32) != tag_ || k >> ref_.token_shift != 0) {
        return true; // for a reason that the token has, or by its loss
    }
    const u32 w = port::load_relaxed_gpu(word(lane_id_, k));
    return (w >> WARPBELL_SLOT_GENERATION_SHIFT) != token.generation() || ((free_ | quarantine_) >> k & 1u) ||
           !is_pending(w);
}

// A command in flight is answered without its completion: the deadline has passed, or the queue is lost.
// `command`: its id and generation, as they stand in its token.
//
// At a deadline the controller may still answer, and still write to the buffer, so the id stays out of use;
// the word is not touched, its writer is the reaper. The host is told by state, not by messages: nothing can
// overflow. Of a lost queue the id dies with it. Should its completion come all the same, before the host has
// deleted the queue, no copy of the token may be answered with it: this was the one status.
template <sharing Mode> WARPBELL_NOINLINE status queue<Mode>::end_unanswered(u32 command, bool is_lost) {
    const status why = is_lost ? code::queue_lost : code::timed_out;
    const u32 bit = 1u << ((command - first_cid_) & 0xffffu);
    trace_complete(wire_cid((command - first_cid_) & 0xffffu), command >> 16, why.bits);
    if (is_lost ? mutate::id_lives_on_after_loss : mutate::reuse_at_timeout) {
        free_ |= is_lost ? 0u : bit;
        return why;
    }
    quarantine_ |= bit;
    if (is_lost) {
        return why;
    }
    u32* alarm = &reinterpret_cast<warpbell_queue_host*>(ref_.host)->alarm;
    if (mutate::alarm_before_quarantine) {
        port::store_release_sys(alarm, 1);
        port::fence_sys();
    }
    port::store_relaxed_sys(quarantine_word(), quarantine_);
    if (!mutate::alarm_before_quarantine) {
        port::store_release_sys(alarm, 1);
    }
    return why;
}

template <sharing Mode> WARPBELL_D status queue<Mode>::abandon(io_token&& token) {
    if (const optional<status> done = try_wait(token)) {
        return *done;
    }
    const u32 command = static_cast<u32>(token.bits());
    token.reset();
    return end_unanswered(command, refusal_ != 0);
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
    bool waiting = !Some || token.valid(), polled = false;
    u32 free = 0; // lanes that can go on; without a hazard slot there is nothing to poll
    // Opaque: else the compiler makes two loops of this one, for the first time and for the others.
    step did = static_cast<step>(port::opaque(static_cast<u32>(step::idle)));
    u32 on;
    WARPBELL_NO_UNROLL
    do {
        if (waiting) {
            waiting = !settle(token, result);
        }
        if (waiting && (did == step::expired || did == step::lost)) {
            result = end_unanswered(static_cast<u32>(token.bits()), did == step::lost);
            token.reset();
            waiting = false;
        }
        if constexpr (Some) {
            const bool goes_on = polled ? more || !result.ok() : more && (refusal_ & page_only) == 0;
            free |= group.ballot(!waiting && goes_on);
        }
        on = Some && polled && free != 0 ? 0u : free | group.ballot(waiting);
        if (on != 0) {
            polled = true;
            do { // again and again, for as long as the group waits: nobody wakes it up
                did = poll_ring(group, backoff, false);
            } while (did == step::idle && free == 0);
        }
    } while (port::opaque(on) != 0);
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
WARPBELL_D progress_result queue<Mode>::wait_all(const Group& group, io_token& token, status& result,
                                                 backoff& backoff) {
    return wait_until<false>(group, token, result, false, backoff);
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
