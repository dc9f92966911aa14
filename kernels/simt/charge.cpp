// charge.cpp - what accesses take, and lanes that sleep until virtual time has come to theirs.
#include "charge.h"

#include "executor.h"

#include <cstdlib>
#include <cstring>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

constexpr uint64_t never = ~0ull;

SIMT_NO_TSAN uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

SIMT_NO_TSAN uint64_t time_of(const Lane& lane) { return later(lane.time, lane.worker->charges->now); }

// The lane's own time is `then`; it goes on when virtual time is, too.
SIMT_NO_TSAN void sleep_until(Lane& lane, uint64_t then) {
    lane.time = then;
    if (then <= lane.worker->charges->now)
        return;
    Warp& warp = *lane.warp;
    warp.asleep |= 1u << lane.index;
    if (then < warp.wake)
        warp.wake = then;
    leave(lane);
}

SIMT_NO_TSAN bool is_of_host(const Charges& charges, uint64_t address) {
    uint64_t low = 0, high = charges.host_ranges;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (address >= charges.host[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < charges.host_ranges && address >= charges.host[low].begin;
}

SIMT_NO_TSAN uint32_t by_place(const Lane& lane, uint64_t address, uint32_t of_gpu, uint32_t of_host) {
    const Charges& charges = *lane.worker->charges;
    if (is_of_block(lane, address))
        return charges.cost.load_shared;
    return is_of_host(charges, address) ? of_host : of_gpu;
}

// When the address can serve a read-modify-write that is begun at `then`; from now on it is busy with it.
// Services that are over make room; of the others each belongs to a lane that has not got its answer yet.
SIMT_NO_TSAN uint64_t serve(Charges& charges, uint64_t address, uint64_t then) {
    uint64_t begin = then;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < charges.served; ++i) {
        const Service one = charges.service[i];
        if (one.address == address)
            begin = later(begin, one.until);
        else if (one.until > charges.now)
            charges.service[kept++] = one;
    }
    charges.service[kept] = {address, begin + charges.cost.rmw_service};
    charges.served = kept + 1;
    return begin;
}

SIMT_NO_TSAN void charge_load(Lane& lane, uint64_t address) {
    const wb_simt_costs& cost = lane.worker->charges->cost;
    const uint32_t trip = lane.overlaps ? 0 : by_place(lane, address, cost.load_gpu, cost.load_host);
    sleep_until(lane, time_of(lane) + trip);
}

SIMT_NO_TSAN void charge_rmw(Lane& lane, uint64_t address) {
    Charges& charges = *lane.worker->charges;
    // Whoever is earlier by virtual time is served earlier.
    sleep_until(lane, time_of(lane));
    sleep_until(lane, serve(charges, address, charges.now));
    const uint32_t trip = by_place(lane, address, charges.cost.rmw_gpu, charges.cost.rmw_host);
    // Not before its service is over: a lane has one at a time.
    lane.time = charges.now + later(lane.reduces ? charges.cost.store : trip, charges.cost.rmw_service);
    if (lane.reduces && is_of_host(charges, address))
        lane.warp->posted = later(lane.warp->posted, charges.now + charges.cost.host_write);
}

// `posted`: it is on its way when the lane goes on.
SIMT_NO_TSAN void charge_write(Lane& lane, uint32_t cost, bool posted) {
    const Charges& charges = *lane.worker->charges;
    sleep_until(lane, time_of(lane));
    lane.time = charges.now + cost;
    if (posted)
        lane.warp->posted = later(lane.warp->posted, charges.now + charges.cost.host_write);
}

// A system fence waits for what its warp has on its way: one lane fences for all.
SIMT_NO_TSAN void charge_fence(Lane& lane, scope s) {
    const wb_simt_costs& cost = lane.worker->charges->cost;
    if (s == scope::gpu)
        lane.time = time_of(lane) + cost.fence_gpu;
    if (s == scope::sys)
        lane.time = later(time_of(lane) + cost.fence_sys, lane.warp->posted);
}

SIMT_NO_TSAN void wake_up(Warp& warp, uint64_t now) {
    warp.wake = never;
    for (uint32_t rest = warp.asleep; rest; rest &= rest - 1) {
        const Lane& lane = warp.lanes[__builtin_ctz(rest)];
        const uint32_t bit = rest & -rest;
        if (lane.time <= now) {
            warp.asleep &= ~bit;
            warp.ready |= bit;
        } else if (lane.time < warp.wake) {
            warp.wake = lane.time;
        }
    }
}

SIMT_NO_TSAN void set_now(Worker& worker, uint64_t now) {
    Charges& charges = *worker.charges;
    charges.now = later(charges.now, now);
    for (uint32_t i = 0; i < worker.warp_count; ++i)
        if (worker.warps[i]->wake <= charges.now)
            wake_up(*worker.warps[i], charges.now);
}

SIMT_NO_TSAN uint64_t latest_of(const Warp& warp, uint32_t group) {
    uint64_t latest = 0;
    for (uint32_t rest = group; rest; rest &= rest - 1)
        latest = later(latest, time_of(warp.lanes[__builtin_ctz(rest)]));
    return latest;
}

SIMT_NO_TSAN void set_times(Warp& warp, uint32_t group, uint64_t time) {
    for (uint32_t rest = group; rest; rest &= rest - 1)
        warp.lanes[__builtin_ctz(rest)].time = time;
}

} // namespace

Charges* create_charges(const wb_simt_launch& launch, uint32_t lanes) {
    const size_t bytes = sizeof(Charges) + lanes * sizeof(Service);
    auto* charges = static_cast<Charges*>(std::malloc(bytes));
    if (!charges)
        return nullptr;
    std::memset(static_cast<void*>(charges), 0, sizeof *charges);
    charges->cost = *launch.costs;
    charges->host = launch.host;
    charges->host_ranges = launch.host_ranges;
    return charges;
}

SIMT_NO_TSAN void begin_charged_step(Worker& worker) {
    set_now(worker, worker.launch.hooks.clock_ns(worker.launch.hooks.context));
}

SIMT_NO_TSAN bool pass_time(Worker& worker) {
    uint64_t until = never;
    for (uint32_t i = 0; i < worker.warp_count; ++i)
        if (worker.warps[i]->wake < until)
            until = worker.warps[i]->wake;
    if (until == never)
        return false;
    set_now(worker, worker.launch.hooks.pass_time(worker.launch.hooks.context, until));
    return true;
}

SIMT_NO_TSAN void charge(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes) {
    const wb_simt_costs& cost = lane.worker->charges->cost;
    const auto at = reinterpret_cast<uint64_t>(address);
    // The load or swap that these belong to has been charged.
    if (event == WB_SIMT_EVENT_RMW_FAILED || event == WB_SIMT_EVENT_ACQUIRE)
        return;
    lane.time = time_of(lane) + cost.instructions;
    switch (event) {
    case WB_SIMT_EVENT_LOAD:
        return charge_load(lane, at);
    case WB_SIMT_EVENT_RMW:
        return charge_rmw(lane, at);
    case WB_SIMT_EVENT_STORE:
        return charge_write(lane, cost.store, is_of_host(*lane.worker->charges, at));
    case WB_SIMT_EVENT_DOORBELL:
        return charge_write(lane, cost.doorbell, true);
    case WB_SIMT_EVENT_FENCE:
        return charge_fence(lane, static_cast<scope>(bytes));
    default:
        return;
    }
}

SIMT_NO_TSAN void charge_release(Lane& lane, scope s) { charge_fence(lane, s); }

SIMT_NO_TSAN void charge_pause(Lane& lane, uint32_t ns) { sleep_until(lane, time_of(lane) + ns); }

SIMT_NO_TSAN uint64_t charged_clock_ns(Lane& lane) {
    return lane.time = time_of(lane) + lane.worker->charges->cost.clock;
}

SIMT_NO_TSAN void charge_meeting(Warp& warp, uint32_t group) {
    set_times(warp, group, latest_of(warp, group) + warp.worker->charges->cost.collective);
}

SIMT_NO_TSAN void charge_barrier(Block& block) {
    uint64_t latest = 0;
    for (uint32_t i = 0; i < block.warp_count; ++i)
        latest = later(latest, latest_of(block.warps[i], block.warps[i].live));
    latest += block.warps[0].worker->charges->cost.collective;
    for (uint32_t i = 0; i < block.warp_count; ++i)
        set_times(block.warps[i], block.warps[i].live, latest);
}

} // namespace simt
