// collectives.cpp - warp collectives, barriers and divergence mean what they mean in CUDA.
#include "harness.h"

using namespace harness;
using simt::load;
using simt::order;
using simt::store;

namespace {

constexpr unsigned full = 0xffffffffu;
uint64_t seed; // of the run in progress

wb_simt_launch grid(uint32_t blocks, uint32_t threads) { return shape(blocks, threads, seed); }

unsigned me() { return threadIdx.x % 32; }

void divergent_masks() {
    unsigned got[32];
    run(grid(1, 32), [&got] {
        if (me() % 2)
            got[me()] = __ballot_sync(0xaaaaaaaau, me() < 16);
        else
            got[me()] = __ballot_sync(0x55555555u, me() >= 16);
    });
    for (unsigned i = 0; i < 32; ++i)
        CHECK(got[i] == (i % 2 ? 0x0000aaaau : 0x55550000u));
}

void nested_branches() {
    unsigned got[32];
    run(grid(1, 32), [&got] {
        unsigned sum = 0;
        if (me() < 16) {
            if (me() < 8)
                sum = __reduce_add_sync(0xffu, me());
            else
                sum = __reduce_add_sync(0xff00u, me());
            sum += __shfl_sync(0xffffu, sum, 15);
        } else {
            sum = __reduce_max_sync(0xffff0000u, me());
        }
        __syncwarp();
        got[me()] = sum;
    });
    CHECK(got[0] == 28 + 92);
    CHECK(got[15] == 92 + 92);
    CHECK(got[16] == 31);
}

void overlapping_masks_in_turn() {
    unsigned got[3] = {};
    run(grid(1, 32), [&got] {
        if (me() == 0)
            got[0] = __shfl_sync(3u, 10u, 1);
        if (me() == 1) {
            got[1] = __shfl_sync(3u, 11u, 0);
            got[1] += __shfl_sync(6u, 12u, 2);
        }
        if (me() == 2)
            got[2] = __shfl_sync(6u, 13u, 1);
    });
    CHECK(got[0] == 11);
    CHECK(got[1] == 10 + 13);
    CHECK(got[2] == 12);
}

// The same collective in two branches is one rendezvous, as since Volta.
void converging_from_branches() {
    unsigned got[32];
    run(grid(1, 32), [&got] {
        if (me() < 5)
            got[me()] = __ballot_sync(full, 1);
        else
            got[me()] = __ballot_sync(full, 0);
    });
    for (unsigned value : got)
        CHECK(value == 31);
}

void shuffles() {
    unsigned up[32], down[32], exchanged[32], rotated[32];
    uint64_t wide[32];
    run(grid(1, 32), [&] {
        const unsigned i = me();
        up[i] = __shfl_up_sync(full, i, 3, 8);
        down[i] = __shfl_down_sync(full, i, 3, 8);
        exchanged[i] = __shfl_xor_sync(full, i, 5);
        rotated[i] = __shfl_sync(full, i, static_cast<int>(i) + 1, 16);
        wide[i] = __shfl_sync(full, 0x100000000ull * i, 7);
    });
    for (unsigned i = 0; i < 32; ++i) {
        CHECK(up[i] == (i % 8 >= 3 ? i - 3 : i));
        CHECK(down[i] == (i % 8 + 3 < 8 ? i + 3 : i));
        CHECK(exchanged[i] == (i ^ 5));
        CHECK(rotated[i] == (i & 16) + (i + 1) % 16);
        CHECK(wide[i] == 0x700000000ull);
    }
}

// Whoever meets nobody gets what a group of one gets, by each operation, in every lane and from other lanes,
// too.
void groups_of_one() {
    uint64_t got[32][12];
    run(grid(1, 32), [&] {
        const unsigned i = me(), own = 1u << i;
        uint64_t* out = got[i];
        int same = 0;
        __syncwarp(own);
        out[0] = __ballot_sync(own, i % 2);
        out[1] = static_cast<uint64_t>(__any_sync(own, i % 2));
        out[2] = static_cast<uint64_t>(__all_sync(own, i % 2));
        out[3] = __shfl_sync(own, 100 + i, static_cast<int>(i));
        out[4] = __shfl_up_sync(own, 100 + i, 0);
        out[5] = __shfl_xor_sync(own, 100 + i, 0);
        out[6] = __match_any_sync(own, 7u);
        out[7] = __match_all_sync(own, 7u, &same);
        out[8] = __reduce_add_sync(own, 100 + i);
        out[9] = static_cast<uint64_t>(same);
        out[10] = __shfl_sync(own, 100 + i, static_cast<int>(i) ^ 1);
        out[11] = __reduce_xor_sync(own, 100 + i);
    });
    for (unsigned i = 0; i < 32; ++i) {
        const uint64_t own = 1u << i, odd = i % 2, value = 100 + i;
        const uint64_t expected[] = {odd ? own : 0, odd, odd,   value, value,       value,
                                     own,           own, value, 1,     0xbad0bad0u, value};
        for (unsigned k = 0; k < 12; ++k)
            CHECK(got[i][k] == expected[k]);
    }
}

// Within segments of 8: a lane may read an earlier segment, not a later one.
void shuffle_xor_with_width() {
    unsigned got[32];
    double real[32];
    run(grid(1, 32), [&] {
        got[me()] = __shfl_xor_sync(full, me(), 9, 8);
        real[me()] = __shfl_down_sync(full, me() * 0.5, 100);
    });
    for (unsigned i = 0; i < 32; ++i) {
        CHECK(got[i] == (i & 8 ? i ^ 9 : i));
        CHECK(real[i] == i * 0.5);
    }
}

void shuffle_from_a_lane_outside() {
    unsigned got[4];
    run(grid(1, 32), [&got] {
        if (me() < 4)
            got[me()] = __shfl_sync(0xfu, me(), 9);
    });
    for (unsigned value : got)
        CHECK(value == 0xbad0bad0u);
}

void votes() {
    int any[32], all[32], none[32];
    run(grid(1, 32), [&] {
        any[me()] = __any_sync(full, me() == 7);
        all[me()] = __all_sync(full, me() < 32);
        none[me()] = __any_sync(full, 0) + __all_sync(full, me() != 7);
    });
    for (unsigned i = 0; i < 32; ++i)
        CHECK(any[i] == 1 && all[i] == 1 && none[i] == 0);
}

void matches() {
    unsigned any[32], all[32], not_all[32];
    int same = -1, different = -1;
    run(grid(1, 32), [&] {
        int p, q;
        any[me()] = __match_any_sync(full, static_cast<uint64_t>(me() % 3) << 40);
        all[me()] = __match_all_sync(full, 5, &p);
        not_all[me()] = __match_all_sync(full, me() / 31, &q);
        if (me() == 0)
            same = p, different = q;
    });
    for (unsigned i = 0; i < 32; ++i) {
        unsigned want = 0;
        for (unsigned j = i % 3; j < 32; j += 3)
            want |= 1u << j;
        CHECK(any[i] == want);
        CHECK(all[i] == full && not_all[i] == 0);
    }
    CHECK(same == 1 && different == 0);
}

void reductions() {
    unsigned u[6] = {};
    int s[3] = {};
    run(grid(1, 32), [&] {
        const unsigned v = 1u << me();
        const int signed_value = static_cast<int>(me()) - 16;
        const unsigned add = __reduce_add_sync(full, v), low = __reduce_min_sync(full, v);
        const unsigned high = __reduce_max_sync(full, v), both = __reduce_and_sync(full, ~v);
        const unsigned either = __reduce_or_sync(full, v & 0xff), odd = __reduce_xor_sync(full, me());
        const int sum = __reduce_add_sync(full, signed_value), least = __reduce_min_sync(full, signed_value);
        const int most = __reduce_max_sync(full, signed_value);
        if (me() == 9) {
            u[0] = add, u[1] = low, u[2] = high, u[3] = both, u[4] = either, u[5] = odd;
            s[0] = sum, s[1] = least, s[2] = most;
        }
    });
    CHECK(u[0] == full && u[1] == 1 && u[2] == 0x80000000u && u[3] == 0 && u[4] == 0xff && u[5] == 0);
    CHECK(s[0] == -16 && s[1] == -16 && s[2] == 15);
}

void partial_warp() {
    unsigned got[40];
    run(grid(1, 40), [&got] { got[threadIdx.x] = __ballot_sync(full, 1); });
    CHECK(got[0] == full);
    CHECK(got[32] == 0xffu && got[39] == 0xffu);
}

void exited_lanes() {
    unsigned got[32] = {};
    run(grid(1, 32), [&got] {
        if (me() % 4 == 0)
            return;
        got[me()] = __ballot_sync(full, 1);
        if (me() == 1)
            return; // completes what the others already wait in, or will
        got[me()] += __ballot_sync(full, 0) == 0;
    });
    CHECK(got[1] == 0xeeeeeeeeu);
    CHECK(got[2] == 0xeeeeeeefu);
    CHECK(got[0] == 0);
}

void active_mask() {
    unsigned branch[32], alone = 0;
    run(grid(1, 32), [&] {
        if (me() < 12)
            branch[me()] = __activemask();
        else
            branch[me()] = __activemask() | 0;
        if (me() == 3)
            alone = __activemask();
    });
    for (unsigned i = 0; i < 32; ++i) {
        const unsigned side = i < 12 ? 0xfffu : 0xfffff000u;
        CHECK((branch[i] >> i & 1) && (branch[i] & ~side) == 0);
        CHECK(seed || branch[i] == side);
    }
    CHECK(alone == 8);
}

// A lane that spins must not keep the others from converging.
void active_mask_beside_a_spinner() {
    uint32_t flag = 0;
    const Outcome outcome = run(grid(1, 32), [&flag] {
        if (me() == 0) {
            while (!load(&flag))
                simt::pause();
        } else if (__activemask() & 2) {
            store(&flag, 1);
        } else {
            store(&flag, 1);
        }
    });
    CHECK(outcome.state == WB_SIMT_DONE);
}

void block_barrier() {
    std::vector<unsigned> data(160), sums(160);
    run(grid(1, 160), [&] {
        data[threadIdx.x] = threadIdx.x;
        if (threadIdx.x >= 150)
            return; // exited threads are not waited for
        for (int round = 0; round < 5; ++round) {
            __syncthreads();
            unsigned sum = 0;
            for (unsigned i = 0; i < 150; ++i)
                sum += data[i];
            __syncthreads();
            sums[threadIdx.x] = sum;
            data[threadIdx.x] += 1;
        }
    });
    for (unsigned i = 0; i < 150; ++i)
        CHECK(sums[i] == 149 * 75 + 4 * 150);
}

void shared_memory_and_indices() {
    std::vector<unsigned> seen(12);
    wb_simt_launch launch = grid(12, 64);
    launch.shared_bytes = 256;
    launch.resident_blocks = 5;
    run(launch, [&seen] {
        auto* words = static_cast<unsigned*>(simt::shared_memory());
        words[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0 && gridDim.x == 12 && blockDim.x == 64)
            seen[blockIdx.x] = words[63];
    });
    for (unsigned i = 0; i < 12; ++i)
        CHECK(seen[i] == i * 100 + 63);
}

void bit_functions() {
    CHECK(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64);
    CHECK(__ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41);
    CHECK(__clz(0) == 32 && __clz(1) == 31 && __clzll(0) == 64 && __clzll(-1) == 0);
    CHECK(__brev(1) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u);
    CHECK(__brevll(1) == 1ull << 63);
}

} // namespace

int main() {
    for (seed = 0; seed < 20; ++seed) {
        divergent_masks();
        nested_branches();
        overlapping_masks_in_turn();
        converging_from_branches();
        shuffles();
        shuffle_xor_with_width();
        shuffle_from_a_lane_outside();
        groups_of_one();
        votes();
        matches();
        reductions();
        partial_warp();
        exited_lanes();
        active_mask();
        active_mask_beside_a_spinner();
        block_barrier();
        shared_memory_and_indices();
    }
    bit_functions();
    return summary("collectives");
}
