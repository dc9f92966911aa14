// hooks.cpp - hooks off their fast path: pre-emption, observers, and calls on the owner's stack.
#include "hooks.h"

#include "charge.h"
#include "executor.h"
#include "store_buffer.h"

#include <sched.h>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

SIMT_NO_TSAN void perform(Worker& worker) {
    const wb_simt_hooks& hooks = worker.launch.hooks;
    Call& call = worker.call;
    switch (call.what) {
    case Call::What::doorbell:
        tsan_acquire(&call);
        hooks.doorbell(hooks.context, reinterpret_cast<uint32_t*>(call.address), call.value);
        break;
    case Call::What::memory_event:
        hooks.memory_event(hooks.context, call.kind, call.address, call.bytes, call.warp, call.lane);
        break;
    case Call::What::clock:
        call.result = hooks.clock_ns(hooks.context);
        break;
    case Call::What::register_load:
        tsan_acquire(&call);
        call.result = hooks.register_load(hooks.context, reinterpret_cast<const uint32_t*>(call.address));
        tsan_release(&call);
        break;
    case Call::What::nothing:
        break;
    }
    call.what = Call::What::nothing;
}

// Runs worker.call on the owner's stack, where the caller may already be.
SIMT_NO_TSAN void call_owner(Worker& worker) {
    Lane* lane = running.lane;
    if (!lane)
        return perform(worker);
    worker.caller = lane;
    running.lane = nullptr;
    switch_context(lane->context, worker.owner);
}

} // namespace

SIMT_NO_TSAN void run_lane(Worker& worker, Lane& lane) {
    for (Lane* next = &lane; next; next = worker.caller) {
        if (worker.caller)
            perform(worker);
        worker.caller = nullptr;
        running.lane = next;
        switch_context(worker.owner, next->context);
        running.lane = nullptr;
    }
}

SIMT_NO_TSAN bool is_of_block(const Lane& lane, uint64_t address) {
    const uint64_t begin = reinterpret_cast<uint64_t>(lane.warp->block->shared);
    return begin != 0 && address - begin < lane.worker->launch.shared_bytes;
}

// Most observers have no use for memory of the block.
SIMT_NO_TSAN static bool is_hidden(const Lane& lane, uint64_t address) {
    return !(lane.worker->launch.flags & WB_SIMT_OBSERVE_SHARED) && is_of_block(lane, address);
}

SIMT_NO_TSAN void tell(Worker& worker, wb_simt_event kind, uint64_t address, uint32_t bytes,
                       const Lane& lane) {
    if (!worker.launch.hooks.memory_event || is_hidden(lane, address))
        return;
    worker.call = {Call::What::memory_event, kind, bytes, lane.warp->number, lane.index, 0, address, 0};
    call_owner(worker);
}

SIMT_NO_TSAN void ring(Worker& worker, uint32_t* address, uint32_t value) {
    if (!worker.launch.hooks.doorbell) {
        __atomic_store_n(address, value, __ATOMIC_RELEASE);
        return;
    }
    worker.call = {Call::What::doorbell, 0, 4, 0, 0, value, reinterpret_cast<uint64_t>(address), 0};
    tsan_release(&worker.call);
    call_owner(worker);
}

SIMT_NO_TSAN bool slow_point(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes) {
    Worker& worker = *lane.worker;
    if (worker.charges)
        charge(lane, event, address, bytes);
    if (worker.explore) {
        if (event == WB_SIMT_EVENT_LOAD)
            stop_before(lane, WB_SIMT_STOP_LOAD, reinterpret_cast<uint64_t>(address), bytes);
        return true;
    }
    if (worker.weak)
        drain_by_chance(worker, *lane.warp->block);
    // What follows a failed compare-and-swap belongs to the same access.
    if (worker.random && event != WB_SIMT_EVENT_RMW_FAILED && one_in(worker, worker.preempt_one_in))
        preempt(lane);
    tell(worker, event, reinterpret_cast<uint64_t>(address), bytes, lane);
    return worker.weak;
}

SIMT_NO_TSAN bool slow_write(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes,
                             scope released) {
    if (lane.worker->charges)
        charge_release(lane, released);
    return slow_point(lane, event, address, bytes);
}

SIMT_NO_TSAN bool slow_load(Lane& lane, const volatile void* address, uint32_t bytes, bool acquires) {
    const bool buffered = slow_point(lane, WB_SIMT_EVENT_LOAD, address, bytes);
    if (acquires)
        tell(*lane.worker, WB_SIMT_EVENT_ACQUIRE, reinterpret_cast<uint64_t>(address), bytes, lane);
    return buffered;
}

SIMT_NO_TSAN void doorbell_elsewhere(Lane& lane, uint32_t* address, uint32_t value) {
    Worker& worker = *lane.worker;
    if (worker.slow && slow_point(lane, WB_SIMT_EVENT_DOORBELL, address, 4))
        weak_doorbell(lane, address, value);
    else
        ring(worker, address, value);
}

SIMT_NO_TSAN uint32_t register_elsewhere(Lane& lane, const uint32_t* address) {
    Worker& worker = *lane.worker;
    if (worker.slow)
        slow_point(lane, WB_SIMT_EVENT_LOAD, address, 4);
    if (!worker.launch.hooks.register_load)
        return *static_cast<const volatile uint32_t*>(address);
    worker.call = {Call::What::register_load, 0, 4, 0, 0, 0, reinterpret_cast<uint64_t>(address), 0};
    tsan_release(&worker.call);
    call_owner(worker);
    tsan_acquire(&worker.call);
    return static_cast<uint32_t>(worker.call.result);
}

SIMT_NO_TSAN uint64_t hooked_clock_ns(Lane& lane) {
    if (lane.worker->charges)
        return charged_clock_ns(lane);
    lane.worker->call = {Call::What::clock, 0, 0, 0, 0, 0, 0, 0};
    call_owner(*lane.worker);
    return lane.worker->call.result;
}

SIMT_NO_TSAN void host_pause() { sched_yield(); }

} // namespace simt
