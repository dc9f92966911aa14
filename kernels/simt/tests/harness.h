// harness.h - runs kernels written as lambdas, on one worker or on several threads, and counts checks.
#pragma once

#include "simt/cuda.h"
#include "simt/module.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

namespace harness {

inline std::atomic<int> passed = 0, failed = 0;

inline bool check(bool ok, const char* text, const char* file, int line) {
    ++(ok ? passed : failed);
    if (!ok)
        std::printf("%s:%d: failed: %s\n", file, line, text);
    return ok;
}

#define CHECK(x) harness::check((x), #x, __FILE__, __LINE__)

inline int summary(const char* name) {
    std::printf("%s: %d passed, %d failed\n", name, passed.load(), failed.load());
    return failed != 0;
}

struct Outcome {
    uint32_t state;
    std::string text;
    wb_simt_counters count;
    uint64_t idle; // steps that said IDLE
};

inline wb_simt_launch shape(uint32_t grid, uint32_t block, uint64_t seed = 0) {
    wb_simt_launch launch = {};
    launch.abi_version = WB_SIMT_ABI_VERSION;
    launch.size = sizeof launch;
    launch.grid_x = grid;
    launch.block_x = block;
    launch.block_stride = 1;
    launch.seed = seed;
    return launch;
}

inline Outcome finish(wb_simt* worker, uint64_t most_steps = ~0ull) {
    Outcome outcome = {};
    while ((outcome.state = wb_simt_step(worker, 256)) <= WB_SIMT_IDLE && most_steps--) {
        if (outcome.state == WB_SIMT_IDLE && ++outcome.idle % 64 == 0)
            std::this_thread::yield();
    }
    outcome.text = wb_simt_error(worker);
    wb_simt_counters_read(worker, &outcome.count);
    wb_simt_destroy(worker);
    return outcome;
}

// Points the launch at a callable. It is copied with the arguments: capture by reference what must come back.
template <class F> void set_kernel(wb_simt_launch& launch, const F& f) {
    launch.kernel = [](const void* args) { (*static_cast<const F*>(args))(); };
    launch.args = &f;
    launch.args_size = sizeof f;
}

template <class F> Outcome run(wb_simt_launch launch, const F& f, uint64_t most_steps = ~0ull) {
    set_kernel(launch, f);
    wb_simt* worker = wb_simt_create(&launch);
    if (!CHECK(worker != nullptr)) {
        std::printf("create: %s\n", wb_simt_error(nullptr));
        return {};
    }
    return finish(worker, most_steps);
}

template <class F> std::vector<Outcome> run_threads(wb_simt_launch launch, uint32_t threads, const F& f) {
    std::vector<Outcome> outcomes(threads);
    std::vector<std::thread> pool;
    for (uint32_t i = 0; i < threads; ++i)
        pool.emplace_back([&, i] {
            wb_simt_launch mine = launch;
            mine.first_block = i;
            mine.block_stride = threads;
            outcomes[i] = run(mine, f);
        });
    for (auto& thread : pool)
        thread.join();
    return outcomes;
}

inline double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace harness
