// charges.cpp - launches with costs: when a lane does what, in virtual time.
#include "harness.h"

#include <algorithm>
#include <atomic>

using namespace harness;
using namespace simt;

namespace {

// Each figure is found in a sum.
constexpr wb_simt_costs costs = {
    .instructions = 1,
    .load_shared = 20,
    .load_gpu = 100,
    .load_host = 3000,
    .store = 7,
    .rmw_gpu = 200,
    .rmw_host = 5000,
    .rmw_service = 30,
    .fence_gpu = 400,
    .fence_sys = 600,
    .host_write = 9000,
    .doorbell = 11,
    .collective = 50,
    .clock = 2,
};

// The owner's side: virtual time, and a word that somebody else writes at a moment.
struct World {
    uint64_t now = 0, passes = 0;
    uint32_t* word = nullptr;
    uint64_t writes_at = 0;
    uint64_t rung_at = 0;
};

uint64_t clock_of(void* context) { return static_cast<World*>(context)->now; }

uint64_t pass(void* context, uint64_t until) {
    World& world = *static_cast<World*>(context);
    ++world.passes;
    world.now = std::max(world.now, until);
    if (world.word && world.now >= world.writes_at)
        std::atomic_ref(*world.word).store(1, std::memory_order_relaxed);
    return world.now;
}

void ring_at(void* context, uint32_t*, uint32_t) {
    World& world = *static_cast<World*>(context);
    world.rung_at = world.now;
}

wb_simt_launch charged(World& world, uint32_t grid, uint32_t block) {
    wb_simt_launch launch = shape(grid, block);
    launch.costs = &costs;
    launch.hooks.context = &world;
    launch.hooks.clock_ns = clock_of;
    launch.hooks.pass_time = pass;
    launch.hooks.doorbell = ring_at;
    return launch;
}

wb_simt_range range_of(const uint32_t& word) {
    const auto at = reinterpret_cast<uint64_t>(&word);
    return {at, at + sizeof word};
}

// One lane, and a range of host memory, which outlives the launch.
wb_simt_launch charged_beside(World& world, const wb_simt_range& host) {
    wb_simt_launch launch = charged(world, 1, 1);
    launch.host = &host;
    launch.host_ranges = 1;
    return launch;
}

// The time without the look's own cost.
uint64_t time_now() { return simt::clock_ns() - costs.clock; }

void a_load_takes_its_latency_by_place() {
    World world;
    uint32_t gpu = 0, host = 0;
    uint64_t times[3] = {};
    const wb_simt_range range = range_of(host);
    wb_simt_launch launch = charged_beside(world, range);
    launch.shared_bytes = 64;
    const Outcome outcome = run(launch, [&] {
        load(&gpu);
        times[0] = time_now();
        load(&host);
        times[1] = time_now();
        load(static_cast<uint32_t*>(simt::shared_memory()));
        times[2] = time_now();
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(times[0] == 1 + 100);
    CHECK(times[1] == times[0] + 2 + 1 + 3000);
    CHECK(times[2] == times[1] + 2 + 1 + 20);
}

void loads_that_are_issued_together_take_one_latency() {
    World world;
    uint32_t words[3] = {};
    uint64_t times[2] = {};
    const Outcome outcome = run(charged(world, 1, 1), [&] {
        load(&words[0]);
        overlap_loads(true);
        load(&words[1]);
        load(&words[2]);
        overlap_loads(false);
        times[0] = time_now();
        load(&words[0]);
        times[1] = time_now();
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(times[0] == 3 + 100);
    CHECK(times[1] == times[0] + 2 + 1 + 100);
}

// The value is the one at the end of the load, not at its beginning.
void a_poll_sees_an_answer_after_its_latency() {
    World world;
    uint32_t word = 0, polls = 0;
    uint64_t seen = 0;
    world.word = &word;
    world.writes_at = 1000;
    const Outcome outcome = run(charged(world, 1, 1), [&] {
        do {
            ++polls;
        } while (load(&word) == 0);
        seen = time_now();
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(outcome.idle == 0);
    CHECK(polls == 10); // of 101 ns each
    CHECK(seen == 1010);
}

void lanes_side_by_side_overlap() {
    World world;
    uint32_t words[32] = {};
    uint64_t times[32] = {};
    run(charged(world, 1, 32), [&] {
        load(&words[threadIdx.x]);
        times[threadIdx.x] = time_now();
    });
    CHECK(std::count(times, times + 32, 101) == 32);
    CHECK(world.passes == 1);
}

void rmws_of_one_address_are_served_in_turn() {
    constexpr uint32_t warps = 8;
    World world;
    uint32_t word = 0, other = 0;
    uint64_t times[warps] = {}, aside = 0;
    run(charged(world, warps + 1, 1), [&] {
        if (blockIdx.x == warps) {
            fetch_add(&other, 1, order::relaxed);
            aside = time_now();
            return;
        }
        fetch_add(&word, 1, order::relaxed);
        times[blockIdx.x] = time_now();
    });
    std::sort(times, times + warps);
    for (uint64_t i = 0; i < warps; ++i)
        CHECK(times[i] == 1 + i * 30 + 200);
    CHECK(aside == 201);
    CHECK(word == warps);
}

// A lane does not wait for what returns nothing; a fence of the system waits for it, where it is the host's.
void reductions_are_not_waited_for() {
    World world;
    uint32_t gpu = 0, host = 0;
    uint64_t times[5] = {};
    const wb_simt_range range = range_of(host);
    run(charged_beside(world, range), [&] {
        simt::add(&gpu, 1);
        times[0] = time_now();
        simt::bit_or(&host, 4);
        times[1] = time_now();
        fence(order::acq_rel, scope::sys);
        times[2] = time_now();
        fetch_add(&gpu, 1, order::relaxed);
        times[3] = time_now();
        simt::replace(&gpu, 9);
        times[4] = time_now();
    });
    CHECK(times[0] == 1 + 30);
    CHECK(times[1] == times[0] + 2 + 1 + 30);
    CHECK(times[2] == times[1] - 30 + 9000);
    CHECK(times[3] == times[2] + 2 + 1 + 200);
    CHECK(times[4] == times[3] + 2 + 1 + 30);
    CHECK(gpu == 9 && host == 4);
}

// A release is a fence first; a fence of the system waits for what is on its way to the host.
void fences_and_releases() {
    World world;
    uint32_t gpu = 0, host = 0;
    uint64_t times[4] = {};
    const wb_simt_range range = range_of(host);
    wb_simt_launch launch = charged_beside(world, range);
    run(launch, [&] {
        store(&gpu, 1, order::release);
        times[0] = time_now();
        fence(order::acq_rel, scope::sys);
        times[1] = time_now();
        store(&host, 1);
        times[2] = time_now();
        fence(order::acq_rel, scope::sys);
        times[3] = time_now();
    });
    CHECK(times[0] == 400 + 1 + 7);
    CHECK(times[1] == times[0] + 2 + 1 + 600);
    CHECK(times[2] == times[1] + 2 + 1 + 7);
    CHECK(times[3] == times[2] - 7 + 9000);
}

void a_doorbell_rings_when_its_lane_is_there() {
    World world;
    uint32_t word = 0, bell = 0;
    run(charged(world, 1, 1), [&] {
        load(&word);
        doorbell_store(&bell, 1, bell::sq);
    });
    CHECK(world.rung_at == 101 + 1);
}

void a_meeting_waits_for_the_latest() {
    World world;
    uint32_t word = 0;
    uint64_t times[64] = {};
    run(charged(world, 1, 64), [&] {
        if (threadIdx.x == 5)
            load(&word);
        __syncwarp();
        times[threadIdx.x] = time_now();
        __syncthreads();
        times[threadIdx.x] += time_now() << 32;
    });
    const uint64_t first = 101 + 50, both = first + 2 + 50;
    CHECK(times[0] == (both << 32 | first) && times[5] == times[0] && times[31] == times[0]);
    CHECK(times[32] == (both << 32 | 50) && times[63] == times[32]);
}

void pauses_take_what_was_asked_for() {
    World world;
    uint64_t after = 0;
    run(charged(world, 1, 1), [&] {
        __nanosleep(160);
        simt::pause();
        after = time_now();
    });
    CHECK(after == 160 + 20);
}

void a_deadlock_is_still_one() {
    World world;
    uint32_t word = 0;
    const Outcome outcome = run(charged(world, 1, 32), [&] {
        load(&word);
        if (threadIdx.x < 16)
            __syncwarp();
        else
            __ballot_sync(0xffffffffu, 1);
    });
    CHECK(outcome.state == WB_SIMT_DEADLOCK);
}

void launches_without_time_are_refused() {
    auto refused = [](void (*spoil)(wb_simt_launch&)) {
        World world;
        wb_simt_launch launch = charged(world, 1, 1);
        set_kernel(launch, [] {});
        spoil(launch);
        CHECK(wb_simt_create(&launch) == nullptr);
        CHECK(std::strstr(wb_simt_error(nullptr), "costs need") != nullptr);
    };
    refused([](wb_simt_launch& launch) { launch.hooks.clock_ns = nullptr; });
    refused([](wb_simt_launch& launch) { launch.hooks.pass_time = nullptr; });
    if (!SIMT_TSAN)
        refused([](wb_simt_launch& launch) { launch.store_buffer = 4; });
}

} // namespace

int main() {
    a_load_takes_its_latency_by_place();
    loads_that_are_issued_together_take_one_latency();
    a_poll_sees_an_answer_after_its_latency();
    lanes_side_by_side_overlap();
    rmws_of_one_address_are_served_in_turn();
    reductions_are_not_waited_for();
    fences_and_releases();
    a_doorbell_rings_when_its_lane_is_there();
    a_meeting_waits_for_the_latest();
    pauses_take_what_was_asked_for();
    a_deadlock_is_still_one();
    launches_without_time_are_refused();
    return summary("charges");
}
