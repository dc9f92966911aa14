// bench.cpp - what a warp collective and a toy I/O loop cost, in CPU time of one worker.
#include "harness.h"

using namespace harness;

namespace {

constexpr unsigned full = 0xffffffffu;

template <class F> double seconds(uint32_t warps, const F& f) {
    const double start = cpu_seconds();
    const Outcome outcome = run(shape(1, 32 * warps), f);
    if (outcome.state != WB_SIMT_DONE)
        std::printf("%s\n", outcome.text.c_str());
    return cpu_seconds() - start;
}

template <class F> double best_of(int tries, const F& f) {
    double best = f();
    while (--tries > 0)
        best = std::min(best, f());
    return best;
}

template <class F> void report_collective(const char* name, uint32_t warps, const F& body) {
    const uint32_t rounds = 400000 / warps;
    const double time = best_of(5, [&] {
        return seconds(warps, [&body, rounds] {
            for (uint32_t i = 0; i < rounds; ++i)
                body(i);
        });
    });
    std::printf("%-12s %4u warps  %6.1f ns\n", name, warps, time * 1e9 / rounds / warps);
}

struct alignas(64) Entry {
    simt::u32x4 part[4];
};

// A queue that completes its own commands: enough to see what the executor adds to each.
struct Toy {
    static constexpr uint32_t depth = 8192;
    alignas(64) uint32_t tail = 0;
    alignas(64) uint32_t turn = 0;
    alignas(64) uint32_t doorbell = 0;
    std::vector<Entry> entries = std::vector<Entry>(depth);
    std::vector<uint32_t> done = std::vector<uint32_t>(depth);
};

void submit_and_wait(Toy& toy, uint32_t round) {
    using namespace simt;
    const unsigned want = __ballot_sync(full, 1);
    const int leader = __ffs(static_cast<int>(want)) - 1;
    const uint32_t lane = lane_index();
    uint32_t base = 0;
    if (static_cast<int>(lane) == leader)
        base = fetch_add(&toy.tail, 32, order::relaxed);
    base = __shfl_sync(full, base, leader);
    const uint32_t slot = base + lane;
    for (auto& part : toy.entries[slot % Toy::depth].part)
        store128(&part, {round, slot, lane, 0});
    __syncwarp();
    if (static_cast<int>(lane) == leader) {
        while (load(&toy.turn, order::acquire) != base)
            simt::pause();
        doorbell_store(&toy.doorbell, base + 32, bell::sq);
        store(&toy.turn, base + 32, order::release);
    }
    __syncwarp();
    store(&toy.done[slot % Toy::depth], slot + 1, order::release);
    while (static_cast<int32_t>(load(&toy.done[slot % Toy::depth], order::acquire) - (slot + 1)) < 0)
        simt::pause();
}

void report_io(uint32_t warps) {
    const uint32_t rounds = 200000 / warps;
    const double time = best_of(5, [&] {
        Toy toy;
        return seconds(warps, [&toy, rounds] {
            for (uint32_t i = 0; i < rounds; ++i)
                submit_and_wait(toy, i);
        });
    });
    std::printf("%-12s %4u warps  %6.2f M commands/s\n", "toy I/O", warps, 32e-6 * rounds * warps / time);
}

void report_clock() {
    uint64_t sum = 0;
    const double start = cpu_seconds();
    for (int i = 0; i < 1000000; ++i)
        sum += simt::clock_ns();
    std::printf("%-12s             %6.1f ns%s\n", "clock_ns", (cpu_seconds() - start) * 1e3,
                sum ? "" : " (broken)");
}

} // namespace

int main() {
    for (uint32_t warps : {1u, 8u, 32u}) {
        report_collective("ballot", warps, [](uint32_t i) { (void)__ballot_sync(full, i & 1); });
        report_collective("shfl", warps, [](uint32_t i) { (void)__shfl_sync(full, i, 3); });
        report_collective("match_any", warps, [](uint32_t i) { (void)__match_any_sync(full, i); });
        report_collective("reduce_add", warps, [](uint32_t i) { (void)__reduce_add_sync(full, i); });
        report_collective("syncwarp", warps, [](uint32_t) { __syncwarp(); });
        report_collective("pause", warps, [](uint32_t) { simt::pause(); });
    }
    for (uint32_t warps : {1u, 8u, 32u})
        report_io(warps);
    report_clock();
    return 0;
}
