// executor.cpp - create, step, done.
#include "executor.h"

#include "charge.h"
#include "store_buffer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>

using namespace simt;

namespace {

constexpr uint32_t most_threads_per_block = 1024;
constexpr size_t page = 4096;
constexpr uint32_t default_stack = SIMT_TSAN || SIMT_ASAN ? 128 * 1024 : 32 * 1024;

thread_local char create_error[256];

unsigned long this_thread() { return static_cast<unsigned long>(pthread_self()); }

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// Why the launch cannot be run; null if it can.
const char* objection(const wb_simt_launch& launch) {
    if (launch.abi_version != WB_SIMT_ABI_VERSION || launch.size != sizeof launch)
        return "launch: abi_version or size is not this module's";
    if (!launch.kernel)
        return "launch: no kernel";
#if defined(__x86_64__) && defined(__POPCNT__)
    if (!__builtin_cpu_supports("popcnt"))
        return "launch: this processor has no POPCNT, which every x86-64 processor since 2008 has";
#endif
    if (launch.grid_x == 0 || launch.block_x == 0 || launch.block_x > most_threads_per_block)
        return "launch: grid_x must be at least 1, block_x from 1 to 1024";
    if (launch.block_stride == 0)
        return "launch: block_stride must be at least 1";
    if (launch.args_size && !launch.args)
        return "launch: args_size without args";
    if (launch.store_buffer > 4096)
        return "launch: store_buffer must be at most 4096";
    if (launch.store_buffer && SIMT_TSAN)
        return "launch: store_buffer must be 0 under ThreadSanitizer, which would blame lanes for each "
               "other's stores";
    if (launch.flags & WB_SIMT_EXPLORE &&
        (SIMT_TSAN || SIMT_ASAN || launch.block_x != 1 || !launch.store_buffer || launch.seed))
        return "launch: to be explored needs blocks of one lane, a store buffer, no seed and no sanitizer";
    if (launch.costs && (!launch.hooks.clock_ns || !launch.hooks.pass_time || launch.store_buffer))
        return "launch: costs need hooks.clock_ns, hooks.pass_time, and no store buffer";
    if (launch.stack_bytes > (64u << 20))
        return "launch: stack_bytes must be at most 64 MiB";
    return nullptr;
}

void set_sizes(Worker& worker) {
    const wb_simt_launch& launch = worker.launch;
    worker.warps_per_block = (launch.block_x + warp_lanes - 1) / warp_lanes;
    uint64_t blocks = 0;
    if (launch.first_block < launch.grid_x)
        blocks = (launch.grid_x - launch.first_block - 1ull) / launch.block_stride + 1;
    if (launch.resident_blocks && blocks > launch.resident_blocks)
        blocks = launch.resident_blocks;
    worker.block_count = static_cast<uint32_t>(blocks);
    worker.next_block = launch.first_block;
    const size_t wanted = launch.stack_bytes ? launch.stack_bytes : default_stack;
    // One page more, which stack_skew may use up.
    worker.stack_bytes = (wanted + page - 1) / page * page + page;
    worker.stack_stride = worker.stack_bytes + (launch.flags & WB_SIMT_GUARD_PAGES ? page : 0);
}

void set_modes(Worker& worker) {
    wb_simt_launch& launch = worker.launch;
    worker.random = launch.seed != 0;
    worker.weak = launch.store_buffer != 0;
    worker.explore = launch.flags & WB_SIMT_EXPLORE;
    // A store that waits may be to a stack, and observers tell memory by its address. To the race detector
    // lanes that begin later come after those that have ended: it would miss races between the two.
    worker.keeps_stacks = worker.weak || launch.hooks.memory_event || SIMT_TSAN;
    worker.slow = worker.random || worker.weak || launch.hooks.memory_event || launch.costs;
    worker.plain = !worker.slow && !launch.hooks.clock_ns && !SIMT_TSAN;
    worker.preempt_one_in = launch.preempt_one_in ? launch.preempt_one_in : 8;
    worker.rng = mix(launch.seed ^ mix(launch.first_block)) | 1;
    // Some seeds hold stores back for long, some hardly: different bugs want different windows.
    static constexpr uint32_t rates[] = {2, 4, 8, 32};
    worker.drain_one_in = rates[next_random(worker) >> 62];
    worker.spin_left = spin_limit;
}

bool copy_costs(Worker& worker) {
    if (worker.launch.costs)
        worker.charges = create_charges(worker.launch, worker.block_count * worker.launch.block_x);
    return worker.charges || !worker.launch.costs;
}

bool copy_args(Worker& worker, const wb_simt_launch& launch) {
    worker.args = std::aligned_alloc(64, (launch.args_size + 64) / 64 * 64);
    if (!worker.args)
        return false;
    if (launch.args_size)
        std::memcpy(worker.args, launch.args, launch.args_size);
    worker.launch.args = worker.args;
    return true;
}

// The others keep their order.
void remove_warp_before_cursor(Worker& worker) {
    Warp** next = worker.warps + worker.cursor;
    std::memmove(next - 1, next, (worker.warp_count - worker.cursor) * sizeof *next);
    --worker.warp_count;
}

// Groups at __activemask go on once the turn is over: nobody can come to them any more in it.
void resolve_activemask(Worker& worker, Warp& warp) {
    while (warp.at_activemask) {
        const uint64_t site = warp.value[__builtin_ctz(warp.at_activemask)];
        uint32_t group = 0;
        for (uint32_t rest = warp.at_activemask; rest; rest &= rest - 1)
            if (warp.value[__builtin_ctz(rest)] == site)
                group |= rest & -rest;
        const auto part = static_cast<uint32_t>(next_random(worker) >> 32);
        if (worker.random && (group & part))
            group &= part;
        for (uint32_t rest = group; rest; rest &= rest - 1)
            warp.result[__builtin_ctz(rest)] = group;
        warp.at_activemask &= ~group;
        if (worker.charges)
            charge_meeting(warp, group);
    }
}

void begin_turn(Worker& worker, Warp& warp) {
    if (warp.epoch != worker.epoch) {
        warp.epoch = worker.epoch;
        warp.polled = 0;
        warp.counted = false;
        // A warp's first turn is one of these.
        if (!warp.stacks)
            give_stacks(worker, warp);
    }
    running.lanes = warp.lanes;
    running.turn = warp.ready;
    warp.quantum = turn_quantum;
    worker.progress = false;
    worker.found = false;
    worker.spin_left = spin_limit;
    if (worker.weak)
        drain_by_chance(worker, *warp.block);
    if (!worker.random)
        return;
    const uint64_t random = next_random(worker);
    warp.quantum = 1 + (random >> 20) % 16;
    if (random >> 63 && (warp.ready & static_cast<uint32_t>(random >> 24)))
        running.turn &= static_cast<uint32_t>(random >> 24);
}

// Notes whether the turn brought anything that others may wait for. A loop of loads and collectives without
// pause() ends its turn by the quantum; if it stored and found nothing, it polls as well.
void end_turn(Worker& worker, Warp& warp, const wb_simt_counters& before) {
    resolve_activemask(worker, warp);
    note_ready(warp);
    const wb_simt_counters& now = worker.count;
    const bool works = now.stores != before.stores || now.rmw != before.rmw || worker.found;
    if (warp.quantum <= 0 && now.loads != before.loads && !works)
        warp.polled |= warp.ready;
    if (worker.progress) {
        ++worker.epoch;
        worker.quiet_warps = 0;
    } else if (!warp.counted && (warp.ready & ~warp.polled) == 0) {
        warp.counted = true;
        ++worker.quiet_warps;
    }
}

void run_turn(Worker& worker, Warp& warp) {
    begin_turn(worker, warp);
    const wb_simt_counters before = worker.count;
    run_lane(worker, next_lane(worker));
    if (worker.state == WB_SIMT_FAULT)
        return report_fault(worker);
    end_turn(worker, warp, before);
    // All lanes wait for lanes of this warp, which are among them: nobody else can help.
    if (!warp.ready && !warp.asleep && warp.open) {
        worker.state = WB_SIMT_DEADLOCK;
        report_deadlock(worker);
    }
}

Warp* next_warp(Worker& worker) {
    uint32_t at = worker.random ? static_cast<uint32_t>((next_random(worker) >> 20) % worker.warp_count)
                                : worker.cursor;
    for (uint32_t tried = 0; tried < worker.warp_count; ++tried, ++at) {
        if (at >= worker.warp_count)
            at = 0;
        if (worker.warps[at]->ready) {
            worker.cursor = at + 1;
            return worker.warps[at];
        }
    }
    return nullptr;
}

void settle_exits(Worker& worker, Warp& warp) {
    Block& block = *warp.block;
    if (!worker.keeps_stacks)
        release_stacks(worker, warp);
    if (block.live == 0 && block.stores)
        drain_all(worker, block);
    // It had the last turn.
    remove_warp_before_cursor(worker);
    if (block.live == 0)
        start_next_block(worker, block);
    if (worker.warp_count == 0)
        worker.state = WB_SIMT_DONE;
}

// Whether every warp has polled since anything last happened, but for those that wait in their block's
// barrier: these take no turn in which they could.
bool all_quiet(const Worker& worker) {
    if (worker.quiet_warps >= worker.warp_count)
        return true;
    if (worker.quiet_warps == 0 || worker.warps_per_block == 1)
        return false;
    uint32_t quiet = worker.quiet_warps;
    for (uint32_t i = 0; i < worker.warp_count; ++i) {
        const Warp& warp = *worker.warps[i];
        quiet += !warp.ready && !(warp.counted && warp.epoch == worker.epoch);
    }
    return quiet >= worker.warp_count;
}

// One turn. RUNNING: call again.
uint32_t step_once(Worker& worker) {
    Warp* warp = next_warp(worker);
    if (!warp && worker.charges && pass_time(worker))
        return WB_SIMT_RUNNING;
    if (!warp) {
        report_deadlock(worker);
        return worker.state = WB_SIMT_DEADLOCK;
    }
    run_turn(worker, *warp);
    if (worker.state > WB_SIMT_IDLE)
        return worker.state;
    if (!warp->live)
        settle_exits(worker, *warp);
    // With costs whoever polls takes time, and time passes when all sleep.
    if (worker.state == WB_SIMT_DONE || worker.charges || !all_quiet(worker))
        return worker.state;
    ++worker.epoch;
    worker.quiet_warps = 0;
    return WB_SIMT_IDLE;
}

} // namespace

const struct wb_simt_explore* const wb_simt_explore_table = &explore_table;

wb_simt* wb_simt_create(const struct wb_simt_launch* launch) {
    create_error[0] = 0;
    const char* why = launch ? objection(*launch) : "launch: null";
    auto* worker =
        why ? nullptr : static_cast<wb_simt*>(std::aligned_alloc(alignof(wb_simt), sizeof(wb_simt)));
    if (!worker) {
        std::snprintf(create_error, sizeof create_error, "%s", why ? why : "out of memory");
        return nullptr;
    }
    std::memset(static_cast<void*>(worker), 0, sizeof *worker);
    Worker& w = worker->worker;
    w.launch = *launch;
    w.thread = this_thread();
    adopt_thread(w.owner);
    set_sizes(w);
    set_modes(w);
    if (!copy_args(w, *launch) || !copy_costs(w) || !allocate_blocks(w)) {
        std::snprintf(create_error, sizeof create_error,
                      "out of memory for %u resident blocks of %u lanes with %zu bytes of stack each",
                      w.block_count, launch->block_x, w.stack_bytes);
        wb_simt_destroy(worker);
        return nullptr;
    }
    for (uint32_t i = 0; i < w.block_count; ++i)
        start_next_block(w, w.blocks[i]);
    w.state = w.warp_count ? WB_SIMT_RUNNING : WB_SIMT_DONE;
    return worker;
}

uint32_t wb_simt_step(wb_simt* worker, uint32_t turns) {
    // Nothing is written here: the worker belongs to another thread, or is in the middle of a step.
    if (worker->worker.thread != this_thread() || running.lane || worker->worker.explore)
        return WB_SIMT_FAULT;
    uint32_t state = worker->worker.state;
    if (worker->worker.charges)
        begin_charged_step(worker->worker);
    while (state == WB_SIMT_RUNNING && turns--)
        state = step_once(worker->worker);
    return state;
}

const char* wb_simt_error(const wb_simt* worker) {
    if (!worker)
        return create_error;
    if (worker->worker.thread != this_thread())
        return "fault: a worker may be used only by the thread that created it";
    return worker->worker.error;
}

void wb_simt_counters_read(const wb_simt* worker, struct wb_simt_counters* counters) {
    *counters = worker->worker.count;
}

void wb_simt_destroy(wb_simt* worker) {
    if (!worker)
        return;
    free_blocks(worker->worker);
    std::free(worker->worker.args);
    std::free(worker->worker.charges);
    std::free(worker);
}
