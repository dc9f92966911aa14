// race.cpp - one kernel with a race in it, for ThreadSanitizer to find, or without. run.sh looks at what it
// says.
//
//     race syncwarp|late|groups|syncthreads|message good|bad
#include "harness.h"

using namespace harness;
using namespace simt;

namespace {

int run_case(const char* name, bool good) {
    uint32_t words[64] = {}, flag = 0, sum = 0;
    auto neighbours = [&words, &sum, good] {
        const unsigned i = threadIdx.x;
        words[i] = i;
        if (good)
            __syncwarp();
        else
            (void)__ballot_sync(0xffffffffu, 1); // meets, but orders no memory
        const unsigned other = words[i ^ 1];
        __syncwarp();
        fetch_add(&sum, other, order::relaxed);
    };
    // Lanes that wake late from the first meeting still race with a write before the second.
    auto late = [&words, &sum, good] {
        __syncwarp();
        if (threadIdx.x == 0)
            words[0] = 496;
        if (good)
            __syncwarp();
        const unsigned seen = words[0];
        __syncwarp();
        if (threadIdx.x == 31)
            fetch_add(&sum, good ? seen : 496, order::relaxed);
    };
    // Eight groups meet among themselves, many at a time; one bad lane looks at another group's word.
    auto groups = [&words, &sum, good] {
        const unsigned i = threadIdx.x, mask = 0xfu << (i & ~3u);
        for (unsigned round = 0; round < 300; ++round) {
            words[i] = i + round;
            __syncwarp(mask);
            const unsigned other = words[good || i ? i ^ 3 : 5];
            __syncwarp(mask);
            if (round == 0)
                fetch_add(&sum, good || i ? other : 3, order::relaxed);
        }
    };
    auto warps = [&words, &sum, good] {
        const unsigned i = threadIdx.x;
        words[i] = i;
        good ? __syncthreads() : __syncwarp();
        fetch_add(&sum, words[i ^ 32], order::relaxed);
    };
    auto message = [&words, &flag, &sum, good] {
        if (threadIdx.x == 1) {
            store(&words[0], 496, order::plain);
            store(&flag, 1, good ? order::release : order::relaxed);
        } else if (threadIdx.x == 2) {
            while (!load(&flag, good ? order::fenced : order::relaxed))
                simt::pause();
            fence(order::acquire, scope::gpu);
            sum = load(&words[0], order::plain);
        }
    };
    if (std::strcmp(name, "syncwarp") == 0)
        return run(shape(1, 32), neighbours).state != WB_SIMT_DONE || sum != 496;
    if (std::strcmp(name, "late") == 0)
        return run(shape(1, 32), late).state != WB_SIMT_DONE || sum != 496;
    if (std::strcmp(name, "groups") == 0)
        return run(shape(1, 32), groups).state != WB_SIMT_DONE || sum != 496;
    if (std::strcmp(name, "syncthreads") == 0)
        return run(shape(1, 64), warps).state != WB_SIMT_DONE;
    return run(shape(1, 32), message).state != WB_SIMT_DONE || sum != 496;
}

} // namespace

int main(int argc, char** argv) {
    return argc == 3 ? run_case(argv[1], std::strcmp(argv[2], "good") == 0) : 2;
}
