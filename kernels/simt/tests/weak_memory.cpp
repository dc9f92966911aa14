// weak_memory.cpp - the store buffer lets every missing fence show for some seed, and none that is there.
#include "harness.h"

using namespace harness;
using namespace simt;

namespace {

constexpr unsigned full = 0xffffffffu;
constexpr uint64_t seeds = 300;

// Counts the seeds of `seeds` for which one run of `test` goes wrong.
template <class F> uint64_t failures(const F& test) {
    uint64_t wrong = 0;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        wb_simt_launch launch = shape(1, 64, seed);
        launch.store_buffer = 1 + seed % 16;
        wrong += test(launch);
    }
    return wrong;
}

enum class How { nothing, fence, release, rmw, rmw_release, barrier };

// Thread 0 writes data, then a flag that thread 32 waits for, in another warp.
bool message_is_lost(wb_simt_launch launch, How how) {
    uint32_t data = 0, flag = 0, seen = 0;
    const Outcome outcome = run(launch, [&] {
        if (threadIdx.x == 0) {
            store(&data, 1);
            if (how == How::fence)
                fence(order::acq_rel, scope::gpu);
            if (how == How::rmw || how == How::rmw_release)
                fetch_add(&flag, 1, how == How::rmw ? order::relaxed : order::release);
            else
                store(&flag, 1, how == How::release ? order::release : order::relaxed);
        } else if (threadIdx.x == 32) {
            while (!load(&flag, order::acquire))
                simt::pause();
            seen = load(&data);
        }
    });
    CHECK(outcome.state == WB_SIMT_DONE && data == 1 && flag == 1);
    return seen != 1;
}

void message_passing() {
    auto lost = [](How how) { return failures([how](auto launch) { return message_is_lost(launch, how); }); };
    CHECK(lost(How::nothing) > seeds / 20);
    CHECK(lost(How::rmw) > seeds / 20);
    CHECK(lost(How::fence) == 0);
    CHECK(lost(How::release) == 0);
    CHECK(lost(How::rmw_release) == 0);
}

// A controller that reads the queue entries as soon as its doorbell is rung.
struct Controller {
    struct alignas(64) Entry {
        u32x4 part[4];
    };
    Entry ring[64] = {};
    uint32_t doorbell = 0, rung = 0, incomplete = 0;

    void hook(wb_simt_launch& launch) {
        launch.hooks.context = this;
        launch.hooks.doorbell = [](void* context, uint32_t*, uint32_t tail) {
            auto& c = *static_cast<Controller*>(context);
            ++c.rung;
            for (uint32_t i = 0; i < tail; ++i)
                for (const u32x4& part : c.ring[i].part)
                    c.incomplete += part.x != i + 1 || part.w != i + 1;
        };
    }
};

SIMT_ACCESS void write_entry(Controller& c, uint32_t slot) {
    for (u32x4& part : c.ring[slot].part)
        store128(&part, {slot + 1, 0, 0, slot + 1});
}

struct Steps {
    bool sync, fence;
    unsigned mask = full;
};

// A warp writes its entries, meets, and its leader fences and rings.
bool warp_batch_is_torn(wb_simt_launch launch, Steps steps) {
    Controller c;
    c.hook(launch);
    launch.block_x = 32;
    const Outcome outcome = run(launch, [&c, steps] {
        write_entry(c, threadIdx.x);
        (void)__ballot_sync(full, 1); // meets, but orders no memory
        if (steps.sync && (steps.mask >> threadIdx.x & 1))
            __syncwarp(steps.mask);
        if (threadIdx.x == 0) {
            if (steps.fence)
                fence(order::acq_rel, scope::sys);
            doorbell_store(&c.doorbell, 32, bell::sq);
        }
    });
    CHECK(outcome.state == WB_SIMT_DONE && c.rung == 1);
    return c.incomplete != 0;
}

void doorbell_after_payload() {
    auto torn = [](Steps steps) {
        return failures([steps](auto launch) { return warp_batch_is_torn(launch, steps); });
    };
    CHECK(torn({false, false}) > seeds / 2);
    CHECK(torn({true, false}) > seeds / 2);
    CHECK(torn({false, true}) > seeds / 2); // the leader's fence orders its own entry alone
    CHECK(torn({true, true, 0x0000ffffu}) > seeds / 2);
    CHECK(torn({true, true}) == 0);
}

// Both warps write, meet in the block's barrier, and thread 0 rings for all.
bool block_batch_is_torn(wb_simt_launch launch, bool fenced) {
    Controller c;
    c.hook(launch);
    run(launch, [&c, fenced] {
        write_entry(c, threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 40) {
            if (fenced)
                fence(order::acq_rel, scope::sys);
            doorbell_store(&c.doorbell, 64, bell::sq);
        }
    });
    return c.incomplete != 0;
}

void barrier_is_cumulative() {
    CHECK(failures([](auto launch) { return block_batch_is_torn(launch, false); }) > seeds / 2);
    CHECK(failures([](auto launch) { return block_batch_is_torn(launch, true); }) == 0);
}

// What a lane is told to be ordered after it sees, drained or not; what it is not it may miss.
bool neighbour_is_missed(wb_simt_launch launch, bool sync) {
    uint32_t words[64] = {}, missed = 0;
    run(launch, [&] {
        store(&words[threadIdx.x], threadIdx.x + 1);
        if (sync)
            __syncwarp();
        else
            (void)__ballot_sync(full, 1);
        const uint32_t other = threadIdx.x ^ 5;
        missed += load(&words[other]) != other + 1;
    });
    return missed != 0;
}

void syncwarp_orders_lanes() {
    CHECK(failures([](auto launch) { return neighbour_is_missed(launch, false); }) > seeds / 2);
    CHECK(failures([](auto launch) { return neighbour_is_missed(launch, true); }) == 0);
}

// Store buffering: without a fence both may read 0, and with one that orders no store before a load; with a
// sequentially consistent one never.
bool both_read_zero(wb_simt_launch launch, order how) {
    uint32_t x = 0, y = 0, a = 1, b = 1;
    run(launch, [&] {
        if (threadIdx.x == 0) {
            store(&x, 1);
            fence(how, scope::gpu);
            a = load(&y);
        } else if (threadIdx.x == 32) {
            store(&y, 1);
            fence(how, scope::gpu);
            b = load(&x);
        }
    });
    return a == 0 && b == 0;
}

void store_buffering() {
    auto both_zero = [](order how) {
        return failures([how](auto launch) { return both_read_zero(launch, how); });
    };
    CHECK(both_zero(order::relaxed) > seeds / 20);
    CHECK(both_zero(order::acq_rel) > seeds / 20);
    CHECK(both_zero(order::seq_cst) == 0);
}

// One address keeps its order, whatever the width of the accesses; a lane sees its own stores at once.
bool one_address_is_incoherent(wb_simt_launch launch) {
    alignas(16) uint32_t words[4] = {};
    uint32_t wrong = 0;
    run(launch, [&] {
        if (threadIdx.x == 0) {
            for (uint32_t i = 1; i <= 20; ++i) {
                store(&words[1], i);
                wrong += load(&words[1]) != i;
                wrong += load(reinterpret_cast<uint64_t*>(words)) >> 32 != i;
                wrong += i == 10 && fetch_add(&words[1], 0, order::relaxed) != 10;
            }
            store128(words, {21, 21, 21, 21});
            const u32x4 all = load128(words);
            wrong += load(&words[3]) != 21 || all.x != 21 || all.w != 21;
        } else if (threadIdx.x == 32) {
            uint32_t last = 0;
            while (last != 21) {
                const uint32_t now = load(&words[1]);
                wrong += now < last;
                last = now;
            }
        }
    });
    return wrong || words[1] != 21;
}

// Doorbells of two registers may arrive in either order, those of one may not.
bool doorbells_swap(wb_simt_launch launch, bool same_register) {
    struct {
        uint32_t registers[2] = {}, last = 0;
        bool swapped = false;
    } c;
    launch.hooks.context = &c;
    launch.hooks.doorbell = [](void* context, uint32_t*, uint32_t value) {
        auto* state = static_cast<decltype(&c)>(context);
        state->swapped |= value < state->last;
        state->last = value;
    };
    const Outcome outcome = run(launch, [&] {
        if (threadIdx.x)
            return;
        doorbell_store(&c.registers[0], 1, bell::sq);
        doorbell_store(&c.registers[same_register ? 0 : 1], 2, bell::cq);
    });
    CHECK(c.last != 0 && outcome.count.drained == 2);
    return c.swapped;
}

void coherence() {
    CHECK(failures(one_address_is_incoherent) == 0);
    CHECK(failures([](auto launch) { return doorbells_swap(launch, false); }) > seeds / 10);
    CHECK(failures([](auto launch) { return doorbells_swap(launch, true); }) == 0);
}

// Without a seed stores wait as well, and everything has drained by the end.
void without_a_seed() {
    uint32_t words[64] = {};
    wb_simt_launch launch = shape(1, 64);
    launch.store_buffer = 8;
    const Outcome outcome = run(launch, [&words] { store(&words[threadIdx.x], threadIdx.x); });
    CHECK(outcome.state == WB_SIMT_DONE && outcome.count.drained == 64);
    for (uint32_t i = 0; i < 64; ++i)
        CHECK(words[i] == i);
}

} // namespace

int main() {
    if (SIMT_TSAN) {
        std::printf("weak_memory: skipped, a store buffer and ThreadSanitizer exclude each other\n");
        return 0;
    }
    message_passing();
    doorbell_after_payload();
    barrier_is_cumulative();
    syncwarp_orders_lanes();
    store_buffering();
    coherence();
    without_a_seed();
    return summary("weak_memory");
}
