// hooks.h - what the device library's platform layer calls around each access to memory that others see.
//
// A hook counts the access and lets other lanes run where a lane could otherwise spin for ever. With a seed
// it may pre-empt the lane, with an observer it tells of the access, with a store buffer it may drain a store
// that waits. With none of these it costs an increment and two predicted branches. Outside of a lane hooks do
// nothing.
//
// The typed accesses of memory.h call these themselves; call on_* only around accesses of your own.
#pragma once

#include "schedule.h"

namespace [[gnu::visibility("hidden")]] simt {

// `fenced` is a relaxed access with a fence next to it: before a store, after a load. It differs from
// `relaxed` under TSan alone, which does not see fences: there it is a release store or an acquire load.
// `plain` is an ordinary access, for data that other accesses order; TSan reports its races.
// `speculative`: of a word that a device may be writing, of which a later load tells whether it counts.
enum class order : uint32_t { plain, speculative, relaxed, fenced, acquire, release, acq_rel, seq_cst };
enum class scope : uint32_t { block, gpu, sys };
enum class bell : uint32_t { sq, cq };

// What the device library asks of nanosleep in a loop that polls.
constexpr uint32_t shortest_pause_ns = 20;

// The part of a hook that is not on the fast path. Returns whether the access has to go through the store
// buffer.
bool slow_point(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes);
// `released`: how far the fence reaches that is part of the access; block: there is none.
bool slow_write(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes,
                scope released);
bool slow_load(Lane& lane, const volatile void* address, uint32_t bytes, bool acquires);
void doorbell_elsewhere(Lane& lane, uint32_t* address, uint32_t value);
uint32_t register_elsewhere(Lane& lane, const uint32_t* address);
// A fence that releases; `before_loads`: also orders earlier stores before later loads.
void weak_fence(Lane& lane, bool before_loads);
void spin(Lane& lane);
// With costs (charge.h): the fence that a release is part of, and a pause.
void charge_release(Lane& lane, scope s);
void charge_pause(Lane& lane, uint32_t ns);
uint64_t host_clock_ns();
uint64_t hooked_clock_ns(Lane& lane);
void host_pause();

// Each returns whether the access has to go through the store buffer.
SIMT_ENTRY bool enter_load(const volatile void* address, uint32_t bytes, bool acquires = false) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return false;
    Worker& worker = *lane->worker;
    ++worker.count.loads;
    if (SIMT_UNLIKELY(--worker.spin_left == 0))
        spin(*lane);
    return SIMT_UNLIKELY(worker.slow) && slow_load(*lane, address, bytes, acquires);
}

SIMT_ENTRY bool enter_store(const volatile void* address, uint32_t bytes, scope released = scope::block) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return false;
    Worker& worker = *lane->worker;
    ++worker.count.stores;
    return SIMT_UNLIKELY(worker.slow) && slow_write(*lane, WB_SIMT_EVENT_STORE, address, bytes, released);
}

SIMT_ENTRY bool enter_rmw(const volatile void* address, uint32_t bytes, scope released = scope::block) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return false;
    Worker& worker = *lane->worker;
    ++worker.count.rmw;
    if (SIMT_UNLIKELY(--worker.spin_left == 0))
        spin(*lane);
    return SIMT_UNLIKELY(worker.slow) && slow_write(*lane, WB_SIMT_EVENT_RMW, address, bytes, released);
}

SIMT_ENTRY void leave_rmw(const volatile void* address, uint32_t bytes, bool success) {
    Lane* lane = running.lane;
    if (SIMT_LIKELY(success) || !lane)
        return;
    ++lane->worker->count.rmw_failed;
    if (SIMT_UNLIKELY(lane->worker->slow))
        slow_point(*lane, WB_SIMT_EVENT_RMW_FAILED, address, bytes);
}

SIMT_INLINE void on_load(const volatile void* address, uint32_t bytes) { enter_load(address, bytes); }
SIMT_INLINE void on_store(const volatile void* address, uint32_t bytes) { enter_store(address, bytes); }
SIMT_INLINE void on_rmw(const volatile void* address, bool success) {
    enter_rmw(address, 0);
    leave_rmw(address, 0, success);
}

SIMT_ENTRY void on_fence(order o, scope s) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return;
    Worker& worker = *lane->worker;
    worker.count.fence_sys += s == scope::sys;
    worker.count.fence_gpu += s == scope::gpu;
    const auto code = static_cast<uintptr_t>(o);
    if (SIMT_UNLIKELY(worker.slow) &&
        slow_point(*lane, WB_SIMT_EVENT_FENCE, reinterpret_cast<const void*>(code),
                   static_cast<uint32_t>(s)) &&
        o >= order::release)
        weak_fence(*lane, o == order::seq_cst);
}

SIMT_INLINE void on_fence(scope s) { on_fence(order::acq_rel, s); }

// Counts a doorbell. Returns whether the store is done: through the hook, or held in the store buffer.
SIMT_ENTRY bool enter_doorbell(uint32_t* address, uint32_t value, bell kind) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return false;
    Worker& worker = *lane->worker;
    ++worker.count.doorbells;
    worker.count.sq_doorbells += kind == bell::sq;
    worker.count.cq_doorbells += kind == bell::cq;
    worker.progress = true;
    if (SIMT_LIKELY(!worker.slow && !worker.launch.hooks.doorbell))
        return false;
    doorbell_elsewhere(*lane, address, value);
    return true;
}

// A 32-bit MMIO store, which relies on a fence before it. A release store under TSan, which sees no
// fence, and in the absence of a hook, as a controller in software has nothing else to pair its acquire
// with.
SIMT_INLINE void doorbell_store(uint32_t* address, uint32_t value, bell kind) {
    if (!enter_doorbell(address, value, kind))
        __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

// A 32-bit MMIO load. A store buffer holds nothing that it could find.
SIMT_ENTRY uint32_t register_load(const uint32_t* address) {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        Worker& worker = *lane->worker;
        ++worker.count.register_reads;
        if (SIMT_UNLIKELY(--worker.spin_left == 0))
            spin(*lane);
        if (SIMT_UNLIKELY(worker.slow || worker.launch.hooks.register_load))
            return register_elsewhere(*lane, address);
    }
    return *static_cast<const volatile uint32_t*>(address);
}

// A shadow doorbell was stored: as much progress as a doorbell.
SIMT_ENTRY void count_shadow_store() {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        ++lane->worker->count.shadow_stores;
        lane->worker->progress = true;
    }
}

SIMT_ENTRY void count_sqe(uint32_t n) {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        lane->worker->count.sqes += n;
        lane->worker->progress |= n != 0;
    }
}

SIMT_ENTRY void count_cqe(uint32_t n) {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        lane->worker->count.cqes += n;
        lane->worker->progress |= n != 0;
    }
}

SIMT_ENTRY void count_poll() {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        ++lane->worker->count.polls;
        ++lane->polls;
    }
}

// A word of a page was found: who finds data works, and does not only poll, though it stores nothing.
SIMT_ENTRY void count_word() {
    if (Lane* lane = running.lane; SIMT_LIKELY(lane)) {
        lane->worker->found = true;
    }
}

// What this lane has counted of its polls.
SIMT_ENTRY uint64_t polls_of_lane() { return running.lane ? running.lane->polls : 0; }

// Nanoseconds that never go back. Counts as a load, so that a wait for a deadline lets others run.
SIMT_ENTRY uint64_t clock_ns() {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        return host_clock_ns();
    Worker& worker = *lane->worker;
    if (SIMT_UNLIKELY(--worker.spin_left == 0))
        spin(*lane);
    return SIMT_LIKELY(!worker.launch.hooks.clock_ns) ? host_clock_ns() : hooked_clock_ns(*lane);
}

// Whether what this lane does takes virtual time.
SIMT_ENTRY bool is_charged() {
    const Lane* lane = running.lane;
    return lane && SIMT_UNLIKELY(lane->worker->slow) && lane->worker->charges;
}

// Whether lanes run in order and in real time, and nobody observes their accesses to memory.
SIMT_ENTRY bool is_plain() {
    const Lane* lane = running.lane;
    return lane && lane->worker->plain;
}

// With costs: whether this lane's next loads were issued together with the one before, and take no time of
// their own.
SIMT_ENTRY void overlap_loads(bool on) {
    if (Lane* lane = running.lane)
        lane->overlaps = on;
}

// With costs: whether this lane's next read-modify-writes return nothing, as PTX's red.
SIMT_ENTRY void reduce_only(bool on) {
    if (Lane* lane = running.lane)
        lane->reduces = on;
}

// Says that this lane only polls. It runs again in its warp's next turn; with costs, after `ns`.
SIMT_ENTRY void pause(uint32_t ns = shortest_pause_ns) {
    Lane* lane = running.lane;
    if (SIMT_UNLIKELY(!lane))
        host_pause();
    else if (SIMT_UNLIKELY(lane->worker->slow) && lane->worker->charges)
        charge_pause(*lane, ns);
    else
        yield_polling(*lane);
}

// The block's shared_bytes, aligned to 128. Null outside of a lane.
SIMT_ENTRY void* shared_memory() { return running.lane ? running.lane->warp->block->shared : nullptr; }

// Ends the launch with WB_SIMT_FAULT and this text, which must outlive the worker.
[[noreturn]] void trap(const char* text);

} // namespace simt
