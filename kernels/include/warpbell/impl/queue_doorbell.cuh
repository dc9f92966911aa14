// Doorbells: a register each, or its shadow in memory (Doorbell Buffer Config). One writer at a time: the
// holder of the turn, or of the reaper's lock.
#pragma once

#include "../queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Stores a doorbell's new value in its shadow. Whether the controller must be woken through the register:
// the update passed the value at which it asked to be (NVMe Base 2.0, annex B.5). Values are slots, and
// are compared in 16 bits. A fence before the call orders the entries before the shadow.
template <sharing Mode> WARPBELL_NOINLINE bool queue<Mode>::update_shadow(u32 offset, u32 before, u32 now) {
    const u64 shadows = port::load_relaxed_gpu(&state()->shadow);
    const u64 indices = port::load_relaxed_gpu(&state()->events);
    u32* shadow = reinterpret_cast<u32*>(shadows + offset);
    const u32* events = reinterpret_cast<const u32*>(indices + offset);
    const u32 early = mutate::dbbuf_event_first ? port::load_relaxed_sys(events) : 0;
    port::store_shadow_doorbell(shadow, now);
    // A store before a load: acq_rel does not order that. Without it both sides can miss each other, and
    // the controller sleeps on.
    if (mutate::dbbuf_acq_rel) {
        port::fence_sys();
    } else {
        port::fence_sc_sys();
    }
    const u32 event = mutate::dbbuf_event_first ? early : port::load_relaxed_sys(events);
    return ((now - event - 1u) & 0xffffu) < ((now - before) & 0xffffu);
}

// The tail moves to index `now`, from index `before`; on a shared queue from where it was last rung, which
// stands beside the turn.
template <sharing Mode> WARPBELL_D void queue<Mode>::ring_sq(u32 before, u32 now) {
    const u32 value = port::low_bits(now, ref_.sq_shift);
    bool wakes = true;
    if ((ref_.flags & WARPBELL_QUEUE_SHADOW) != 0) {
        if constexpr (is_shared) {
            before = port::load_relaxed_gpu(&state()->rung);
            port::store_relaxed_gpu(&state()->rung, now);
        }
        wakes = update_shadow(0, port::low_bits(before, ref_.sq_shift), value);
    }
    if (wakes) {
        port::store_sq_doorbell(reinterpret_cast<u32*>(ref_.sq_doorbell),
                                mutate::doorbell_unmasked ? now : value);
    }
    trace_sq_doorbell(now, value, wakes);
}

// The head moves from index `before` to index `now`. The entries were loaded before a fence.
template <sharing Mode> WARPBELL_D void queue<Mode>::ring_cq(u32 before, u32 now) {
    const u32 value = now & cq_mask();
    bool wakes = true;
    if ((ref_.flags & WARPBELL_QUEUE_SHADOW) != 0) {
        const u32 offset = port::load_relaxed_gpu(&state()->shadow_stride);
        wakes = update_shadow(offset, before & cq_mask(), value);
    }
    if (wakes) {
        port::store_cq_doorbell(reinterpret_cast<u32*>(ref_.cq_doorbell), value);
    }
    trace_cq_doorbell(now, value, wakes);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
