// scheduling.cpp - progress, deadlocks, faults, determinism, hooks, and the life of a worker.
#include "harness.h"

#include <algorithm>

using namespace harness;
using namespace simt;

namespace {

constexpr unsigned full = 0xffffffffu;

bool contains(const Outcome& outcome, const char* text) {
    const bool found = outcome.text.find(text) != std::string::npos;
    if (!found)
        std::printf("text: %s\n", outcome.text.c_str());
    return found;
}

// --- progress

void spin_on_a_later_lane(uint64_t seed, bool pausing) {
    uint32_t flag = 0;
    const Outcome outcome = run(shape(1, 32, seed), [&flag, pausing] {
        if (threadIdx.x < 31) {
            while (!load(&flag, order::acquire))
                if (pausing)
                    simt::pause();
        } else {
            store(&flag, 1, order::release);
        }
        __syncwarp();
    });
    CHECK(outcome.state == WB_SIMT_DONE);
}

void spin_on_rmw_and_clock(uint64_t seed) {
    uint32_t flag = 0;
    const Outcome outcome = run(shape(1, 3, seed), [&flag] {
        const uint64_t start = simt::clock_ns();
        if (threadIdx.x == 0)
            while (cas(&flag, 1, 2) != 1) {
            }
        if (threadIdx.x == 1)
            while (simt::clock_ns() - start < 100000) {
            }
        if (threadIdx.x == 2)
            exchange(&flag, 1);
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(flag == 2);
}

void spin_on_a_collective(uint64_t seed) {
    uint32_t flag = 0;
    const Outcome outcome = run(shape(1, 64, seed), [&flag] {
        if (threadIdx.x < 32)
            while (!__any_sync(full, load(&flag) != 0)) {
            }
        else if (threadIdx.x == 63)
            store(&flag, 1);
    });
    CHECK(outcome.state == WB_SIMT_DONE);
}

void spin_lock(uint64_t seed, uint32_t threads) {
    struct {
        uint32_t lock = 0, inside = 0, worst = 0, count = 0;
    } s;
    auto kernel = [&s] {
        for (int i = 0; i < 5; ++i) {
            while (cas(&s.lock, 0, 1, order::acquire) != 0) {
            }
            ++s.inside;
            s.worst = s.inside > s.worst ? s.inside : s.worst;
            if (i & 1)
                simt::pause();
            --s.inside;
            ++s.count;
            store(&s.lock, 0, order::release);
        }
    };
    if (threads == 1) {
        CHECK(run(shape(1, 256, seed), kernel).state == WB_SIMT_DONE);
        CHECK(s.count == 256 * 5);
    } else {
        for (const Outcome& outcome : run_threads(shape(threads, 64, seed), threads, kernel))
            CHECK(outcome.state == WB_SIMT_DONE);
        CHECK(s.count == threads * 64 * 5);
    }
    CHECK(s.worst == 1);
}

void blocks_wait_for_each_other(uint64_t seed) {
    uint32_t turn = 0;
    const Outcome outcome = run(shape(8, 32, seed), [&turn] {
        if (threadIdx.x == 0) {
            while (load(&turn, order::acquire) != 7 - blockIdx.x)
                simt::pause();
            store(&turn, 8 - blockIdx.x, order::release);
        }
        __syncthreads();
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(turn == 8);
}

// --- mistakes

void deadlock_text(uint64_t seed) {
    wb_simt_launch launch = shape(2, 64, seed);
    const Outcome outcome = run(launch, [] {
        if (blockIdx.x == 0)
            return;
        if (threadIdx.x < 32)
            __syncthreads();
        else if (threadIdx.x < 40)
            (void)__ballot_sync(full, 1);
        else
            __syncwarp();
    });
    CHECK(outcome.state == WB_SIMT_DEADLOCK);
    CHECK(contains(outcome, "deadlock: lanes that can never run again"));
    CHECK(contains(outcome, "block 1 warp 1: live ffffffff"));
    CHECK(contains(outcome, "lanes 0-7 wait in __ballot_sync with mask ffffffff for lanes 8-31"));
    CHECK(contains(outcome, "lanes 8-31 wait in __syncwarp with mask ffffffff for lanes 0-7"));
}

// One warp is stuck while another polls for ever: said at once, not never.
void deadlock_beside_a_poller() {
    uint32_t never = 0;
    const Outcome outcome = run(
        shape(1, 64),
        [&never] {
            if (threadIdx.x < 32)
                while (!load(&never))
                    simt::pause();
            else if (threadIdx.x < 33)
                __syncwarp(3);
            else if (threadIdx.x < 34)
                __syncthreads();
        },
        100);
    CHECK(outcome.state == WB_SIMT_DEADLOCK);
    CHECK(contains(outcome, "lanes 0 wait in __syncwarp with mask 00000003 for lanes 1"));
    CHECK(contains(outcome, "lanes 1 wait in __syncthreads"));
}

void faults() {
    Outcome outcome = run(shape(3, 64), [] {
        if (blockIdx.x == 2 && threadIdx.x == 37)
            __syncwarp(0xf);
    });
    CHECK(outcome.state == WB_SIMT_FAULT);
    CHECK(contains(outcome, "fault: block 2 warp 1 lane 5 calls __syncwarp with mask 0000000f, which lacks"));

    outcome = run(shape(1, 32), [] { (void)__shfl_sync(full, 1, 0, 12); });
    CHECK(outcome.state == WB_SIMT_FAULT && contains(outcome, "__shfl_sync with mask ffffffff and width 12"));

    outcome = run(shape(1, 1), [] { simt::trap("the ring is full"); });
    CHECK(outcome.state == WB_SIMT_FAULT && contains(outcome, "lane 0 stops: the ring is full"));

    wb_simt_launch launch = shape(1, 8);
    launch.flags = WB_SIMT_STRICT_SHUFFLE;
    outcome = run(launch, [] { (void)__shfl_sync(full, 1, 20); });
    CHECK(outcome.state == WB_SIMT_FAULT && contains(outcome, "reads lane 20 in __shfl_sync"));
}

void refused_launches() {
    auto nothing = [] {};
    auto refused = [&](void (*spoil)(wb_simt_launch&), const char* text) {
        wb_simt_launch launch = shape(1, 32);
        set_kernel(launch, nothing);
        spoil(launch);
        CHECK(wb_simt_create(&launch) == nullptr);
        CHECK(std::strstr(wb_simt_error(nullptr), text) != nullptr);
    };
    refused([](wb_simt_launch& l) { l.abi_version = 9; }, "abi_version");
    refused([](wb_simt_launch& l) { l.size -= 8; }, "size");
    refused([](wb_simt_launch& l) { l.kernel = nullptr; }, "no kernel");
    refused([](wb_simt_launch& l) { l.block_x = 1025; }, "block_x");
    refused([](wb_simt_launch& l) { l.grid_x = 0; }, "grid_x");
    refused([](wb_simt_launch& l) { l.block_stride = 0; }, "block_stride");
    refused([](wb_simt_launch& l) { l.args = nullptr; }, "args_size");
    CHECK(wb_simt_create(nullptr) == nullptr);
}

void wrong_thread() {
    wb_simt_launch launch = shape(1, 1);
    auto nothing = [] {};
    set_kernel(launch, nothing);
    wb_simt* worker = wb_simt_create(&launch);
    uint32_t state = 0;
    std::string text;
    std::thread([&] {
        state = wb_simt_step(worker, 1);
        text = wb_simt_error(worker);
    }).join();
    CHECK(state == WB_SIMT_FAULT && text.find("thread") != std::string::npos);
    CHECK(wb_simt_step(worker, 10) == WB_SIMT_DONE);
    CHECK(wb_simt_step(worker, 10) == WB_SIMT_DONE);
    wb_simt_destroy(worker);
}

// --- the life of a worker

// Dropped while lanes are in collectives, in the barrier, polling, in a hook's call, and not even started.
void destroy_in_mid_run(uint64_t seed, uint32_t turns) {
    uint32_t never = 0;
    auto kernel = [&never] {
        char frame[256];
        std::memset(frame, static_cast<int>(threadIdx.x), sizeof frame);
        if (threadIdx.x < 8)
            __syncthreads();
        else if (threadIdx.x < 16)
            __syncwarp(0x1ff00);
        else
            while (!load(&never) && frame[7])
                simt::pause();
    };
    wb_simt_launch launch = shape(6, 72, seed);
    launch.resident_blocks = 4;
    set_kernel(launch, kernel);
    wb_simt* worker = wb_simt_create(&launch);
    const uint32_t state = wb_simt_step(worker, turns);
    CHECK(state <= WB_SIMT_IDLE);
    wb_simt_destroy(worker);
}

void only_polling_is_idle(uint64_t seed) {
    uint32_t flag = 0;
    auto kernel = [&flag] {
        while (!__all_sync(full, load(&flag) != 0))
            simt::pause();
    };
    wb_simt_launch launch = shape(4, 64, seed);
    set_kernel(launch, kernel);
    wb_simt* worker = wb_simt_create(&launch);
    for (int i = 0; i < 20; ++i)
        CHECK(wb_simt_step(worker, 20000) == WB_SIMT_IDLE);
    __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
    uint32_t state;
    do
        state = wb_simt_step(worker, 20000);
    while (state <= WB_SIMT_IDLE);
    CHECK(state == WB_SIMT_DONE);
    wb_simt_destroy(worker);
}

void working_is_not_idle() {
    wb_simt_launch launch = shape(4, 64);
    const Outcome outcome = run(launch, [] {
        for (int i = 0; i < 2000; ++i) {
            (void)__ballot_sync(full, 1);
            count_sqe(1);
            if (i % 50 == 0)
                simt::pause();
        }
    });
    CHECK(outcome.state == WB_SIMT_DONE && outcome.idle == 0);
    CHECK(outcome.count.sqes == 4 * 64 * 2000);
    CHECK(outcome.count.collectives == 4 * 2 * 2000);
}

// Who only loads looks like one who polls, but where it says that it has found something.
void finding_is_not_idle() {
    const uint32_t word = 7;
    const auto idle = [&word](bool finds) {
        wb_simt_launch launch = shape(2, 32);
        const Outcome outcome = run(launch, [&word, finds] {
            for (int i = 0; i < 2000; ++i) {
                if (load(&word) == 7 && finds)
                    simt::count_word();
                (void)__ballot_sync(full, 1);
            }
        });
        CHECK(outcome.state == WB_SIMT_DONE);
        return outcome.idle;
    };
    CHECK(idle(false) != 0);
    CHECK(idle(true) == 0);
}

void more_blocks_than_residents() {
    uint32_t count = 0;
    wb_simt_launch launch = shape(50, 70);
    launch.resident_blocks = 3;
    launch.first_block = 1;
    launch.block_stride = 7;
    launch.flags = WB_SIMT_GUARD_PAGES;
    CHECK(run(launch, [&count] { fetch_add(&count, 1, order::relaxed); }).state == WB_SIMT_DONE);
    CHECK(count == 7 * 70);
    launch.first_block = 50;
    CHECK(run(launch, [&count] { fetch_add(&count, 1); }).state == WB_SIMT_DONE);
    CHECK(count == 7 * 70);
}

uint64_t resident_kilobytes() {
    unsigned long size = 0, resident = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%lu %lu", &size, &resident) != 2)
            resident = 0;
        std::fclose(file);
    }
    return resident * 4;
}

// Stacks are given to lanes that run, and used again: none of these blocks meets another.
void stacks_are_used_again() {
    uint32_t count = 0;
    const auto body = [&count] { fetch_add(&count, 1, order::relaxed); };
    wb_simt_launch launch = shape(4000, 64);
    set_kernel(launch, body);
    const uint64_t before = resident_kilobytes();
    wb_simt* worker = wb_simt_create(&launch);
    uint64_t most = 0;
    while (wb_simt_step(worker, 256) <= WB_SIMT_IDLE)
        most = std::max(most, resident_kilobytes());
    wb_simt_destroy(worker);
    CHECK(count == 4000 * 64);
    // A page for each stack of a warp, and 11 KB a block for what is known of its lanes.
    CHECK(before != 0 && most - before < 60 << 10);
}

// --- hooks

struct Observer {
    uint64_t hash = 14695981039346656037ull, events = 0;
    uint64_t base = 0;
    std::vector<uint32_t> bells;
    uint64_t time = 1000;

    void add(uint64_t x) { hash = (hash ^ x) * 1099511628211ull; }

    wb_simt_hooks hooks() {
        wb_simt_hooks h = {};
        h.context = this;
        h.doorbell = [](void* c, uint32_t*, uint32_t value) {
            char deep[64 * 1024]; // more than a lane's stack would hold
            std::memset(deep, 1, sizeof deep);
            static_cast<Observer*>(c)->bells.push_back(value + deep[100] - 1u);
        };
        h.clock_ns = [](void* c) { return static_cast<Observer*>(c)->time += 10; };
        h.memory_event = [](void* c, uint32_t kind, uint64_t address, uint32_t bytes, uint32_t warp,
                            uint32_t lane) {
            auto& o = *static_cast<Observer*>(c);
            ++o.events;
            o.add(kind);
            o.add(kind == WB_SIMT_EVENT_FENCE ? address : address - o.base);
            o.add(bytes);
            o.add(warp * 32 + lane);
        };
        return h;
    }
};

void hooks_are_called() {
    Observer observer;
    uint32_t word = 0, bell_register = 0;
    wb_simt_launch launch = shape(1, 2);
    launch.hooks = observer.hooks();
    const Outcome outcome = run(launch, [&] {
        if (threadIdx.x == 1)
            return;
        store(&word, 1);
        fence(order::acq_rel, scope::sys);
        doorbell_store(&bell_register, 7, bell::sq);
        doorbell_store(&bell_register, 8, bell::cq);
        fence(order::acq_rel, scope::gpu);
        count_poll();
        if (simt::clock_ns() != 1010)
            simt::trap("clock");
        (void)cas(&word, 0, 5);
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(bell_register == 0); // the hook stands for the register
    CHECK(observer.bells == (std::vector<uint32_t>{7, 8}));
    CHECK(observer.events == 7); // the failed compare-and-swap tells twice
    const wb_simt_counters& count = outcome.count;
    CHECK(count.stores == 1 && count.doorbells == 2 && count.sq_doorbells == 1 && count.cq_doorbells == 1);
    CHECK(count.fence_sys == 1 && count.fence_gpu == 1 && count.polls == 1);
    CHECK(count.rmw == 1 && count.rmw_failed == 1 && count.loads == 0);
}

uint64_t history(uint64_t seed, uint32_t store_buffer) {
    struct {
        uint32_t lock = 0, counter = 0, words[128] = {};
    } s;
    Observer observer;
    observer.base = reinterpret_cast<uint64_t>(&s);
    wb_simt_launch launch = shape(2, 64, seed);
    launch.hooks = observer.hooks();
    launch.store_buffer = store_buffer;
    const Outcome outcome = run(launch, [&s] {
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned id = blockIdx.x * 64 + threadIdx.x;
            store(&s.words[id], i);
            while (cas(&s.lock, 0, 1) != 0)
                simt::pause();
            store(&s.counter, load(&s.counter) + 1);
            store(&s.lock, 0, order::release);
            (void)__ballot_sync(full, load(&s.words[id ^ 1]) == i);
        }
    });
    CHECK(outcome.state == WB_SIMT_DONE);
    CHECK(s.counter == 2 * 64 * 4);
    CHECK(observer.events >= outcome.count.loads + outcome.count.stores + outcome.count.rmw);
    observer.add(outcome.count.switches);
    return observer.hash;
}

void same_seed_same_history(uint32_t store_buffer) {
    std::vector<uint64_t> hashes;
    for (uint64_t seed = 0; seed < 12; ++seed) {
        hashes.push_back(history(seed, store_buffer));
        CHECK(history(seed, store_buffer) == hashes.back());
        for (size_t i = 0; i + 1 < hashes.size(); ++i)
            CHECK(hashes[i] != hashes.back());
    }
}

// Lanes may take a shorter way where nothing but their result counts.
void plain_launches() {
    const auto says_plain = [](auto&& change) {
        wb_simt_launch launch = shape(1, 1);
        change(launch);
        bool is_plain = false;
        CHECK(run(launch, [&] { is_plain = simt::is_plain(); }).state == WB_SIMT_DONE);
        return is_plain;
    };
    CHECK(!simt::is_plain());
    CHECK(says_plain([](wb_simt_launch&) {}) == !SIMT_TSAN);
    CHECK(!says_plain([](wb_simt_launch& launch) { launch.seed = 1; }));
    CHECK(!says_plain([](wb_simt_launch& launch) {
        launch.hooks.memory_event = [](void*, uint32_t, uint64_t, uint32_t, uint32_t, uint32_t) {};
    }));
    CHECK(!says_plain(
        [](wb_simt_launch& launch) { launch.hooks.clock_ns = [](void*) -> uint64_t { return 0; }; }));
    if (!SIMT_TSAN)
        CHECK(!says_plain([](wb_simt_launch& launch) { launch.store_buffer = 4; }));
}

} // namespace

int main() {
    for (uint64_t seed = 0; seed < 8; ++seed) {
        spin_on_a_later_lane(seed, true);
        spin_on_a_later_lane(seed, false);
        spin_on_rmw_and_clock(seed);
        spin_on_a_collective(seed);
        spin_lock(seed, 1);
        spin_lock(seed, 2);
        blocks_wait_for_each_other(seed);
        deadlock_text(seed);
        only_polling_is_idle(seed);
        for (uint32_t turns : {0u, 1u, 5u, 40u})
            destroy_in_mid_run(seed, turns);
    }
    deadlock_beside_a_poller();
    faults();
    refused_launches();
    wrong_thread();
    working_is_not_idle();
    finding_is_not_idle();
    more_blocks_than_residents();
    // The race detector has memory of its own for each lane, and is not to take one for another.
    if (!SIMT_TSAN)
        stacks_are_used_again();
    hooks_are_called();
    plain_launches();
    same_seed_same_history(0);
    if (!SIMT_TSAN)
        same_seed_same_history(4);
    return summary("scheduling");
}
