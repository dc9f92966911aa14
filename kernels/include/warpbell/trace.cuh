// What a queue writes down about itself, for `warpbell bench --trace` and tools like it.
//
// On where a kernel is compiled with WARPBELL_TRACE=1, and its queue has a place for it (queue_state.trace).
// Else each function is empty, and costs no instruction and no register: the tests compare machine code.
// Each lane writes to a ring of its own by plain stores; the host reads it once the kernel has ended.
#pragma once

#include "abi_trace.h"
#include "types.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

#if WARPBELL_TRACE
class tracer {
  protected:
    // From now on events are of this queue. `leader`: of the group that attaches.
    template <class Ref> WARPBELL_D void trace_attach(const Ref& ref, u32 lane_id, bool leader);
    WARPBELL_D void trace_submit(u32 cid, u32 generation, u32 index, const u32* dword) {
        const u64 lba = static_cast<u64>(dword[11]) << 32 | dword[10];
        const u32 detail = generation << WARPBELL_TRACE_GENERATION_SHIFT | (dword[12] & 0xffffu);
        const u32 opcode = (dword[0] & 0xffu) << WARPBELL_TRACE_OPCODE_SHIFT;
        trace(WARPBELL_TRACE_SUBMIT | opcode, lba, cid, detail, index);
    }
    WARPBELL_D void trace_sq_doorbell(u32 index, u32 value, bool rung) {
        trace(WARPBELL_TRACE_SQ_DOORBELL, rung ? WARPBELL_TRACE_REGISTER : 0, 0, value, index);
    }
    WARPBELL_D void trace_cq_doorbell(u32 index, u32 value, bool rung) {
        trace(WARPBELL_TRACE_CQ_DOORBELL, rung ? WARPBELL_TRACE_REGISTER : 0, 0, value, index);
    }
    WARPBELL_D void trace_reap(bool leader, u32 index, u32 count, u32 surplus) {
        if (leader) {
            trace(WARPBELL_TRACE_REAP, surplus, 0, count, index);
        }
    }
    WARPBELL_D void trace_complete(u32 cid, u32 generation, u32 status) {
        const u32 detail = generation << WARPBELL_TRACE_GENERATION_SHIFT | status;
        trace(WARPBELL_TRACE_COMPLETE, 0, cid, detail, 0);
    }
    WARPBELL_D void trace_refuse(u32 status) {
        if (status != 0) {
            trace(WARPBELL_TRACE_REFUSE, 0, 0, status, 0);
        }
    }
    WARPBELL_D void trace_late(u32 cid) { trace(WARPBELL_TRACE_LATE, 0, cid, 0, 0); }

  private:
    WARPBELL_D void trace(u32 what, u64 value, u32 cid, u32 detail, u32 index);

    u64 ring_ = 0; // warpbell_trace_lane; 0: this queue is not traced
    u64 events_ = 0;
    u64 written_ = 0;
    u32 mask_ = 0;
    u32 queue_ = 0; // queue identifier, in its place
};

template <class Ref> WARPBELL_D void tracer::trace_attach(const Ref& ref, u32 lane_id, bool leader) {
    const u64 lanes = port::load_relaxed_gpu(&reinterpret_cast<warpbell_queue_state*>(ref.state)->trace);
    ring_ = lanes == 0 ? 0 : lanes + lane_id * sizeof(warpbell_trace_lane);
    if (ring_ == 0) {
        return;
    }
    const warpbell_trace_lane* ring = reinterpret_cast<const warpbell_trace_lane*>(ring_);
    events_ = port::load_relaxed_gpu(&ring->events);
    written_ = port::load_relaxed_gpu(&ring->written);
    mask_ = (1u << port::load_relaxed_gpu(&ring->shift)) - 1u;
    queue_ = ref.qid << WARPBELL_TRACE_QUEUE_SHIFT;
    if (leader) {
        trace(WARPBELL_TRACE_ATTACH, ref.epoch, 0, 0, lane_id / WARPBELL_WARP_LANES);
    }
}

WARPBELL_D void tracer::trace(u32 what, u64 value, u32 cid, u32 detail, u32 index) {
    if (ring_ == 0) {
        return;
    }
    if (events_ != 0) {
        const u64 now = port::clock_ns(), slot = written_ & mask_;
        u32* event = reinterpret_cast<u32*>(events_ + slot * sizeof(warpbell_trace_event));
        port::store_quad(event, static_cast<u32>(now), static_cast<u32>(now >> 32), static_cast<u32>(value),
                         static_cast<u32>(value >> 32));
        port::store_quad(event + 4, what | queue_, cid, detail,
                         index & ((1u << WARPBELL_TRACE_INDEX_BITS) - 1u));
    }
    ++written_;
    port::store_relaxed_gpu(&reinterpret_cast<warpbell_trace_lane*>(ring_)->written, written_);
}
#else
class tracer {
  protected:
    template <class Ref> WARPBELL_D static void trace_attach(const Ref&, u32, bool) {}
    WARPBELL_D static void trace_submit(u32, u32, u32, const u32*) {}
    WARPBELL_D static void trace_sq_doorbell(u32, u32, bool) {}
    WARPBELL_D static void trace_cq_doorbell(u32, u32, bool) {}
    WARPBELL_D static void trace_reap(bool, u32, u32, u32) {}
    WARPBELL_D static void trace_complete(u32, u32, u32) {}
    WARPBELL_D static void trace_refuse(u32) {}
    WARPBELL_D static void trace_late(u32) {}
};
#endif

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
