// Requests of any size that run while the caller does something else: io_request, of groups and of lanes.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// The host lets a command move few blocks, so that each of these takes several.
template <sharing Mode> class requests_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit requests_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            const u32 version = 1u + 3u * round;
            waiting(version);
            pairs(version + 1u);
            lanes_own(version + 2u);
        }
        // Its buffer may be the controller's until the queue is deleted.
        if (this->goes_on(0)) {
            cancels();
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_, check_warp<Mode>::warp_;
    using request = io_request<2>;
    static constexpr u32 all = 96, half = all / 2u;
    static constexpr u32 most = 8; // of a lane

    // All calls in one place: the compiler puts what they are made of wherever they stand.
    WARPBELL_D status start(request& one, bool writes, u32 from, u32 count) {
        return writes ? submit(warp_, s_, one,
                               command::write(this->blocks(from, count), this->data(from, count)))
                      : submit(warp_, s_, one,
                               command::read(this->blocks(from, count), this->data(from, count)));
    }
    WARPBELL_D void ends(u32 step, request& one, u32 blocks) {
        const status said = wait(warp_, s_, one);
        const bool moved = one.bytes() == static_cast<u64>(blocks) * s_.block_bytes();
        found_.judge(step, said, said.ok() && moved && !one.pending());
    }

    // Calls that wait are split, too.
    WARPBELL_D void waiting(u32 version) {
        this->fill(warp_, 0, all, version);
        found_.told(1, write(warp_, s_, this->blocks(0, all), this->data(0, all)));
        this->fill(warp_, 0, all, this->zeros);
        found_.told(2, read(warp_, s_, this->blocks(0, all), this->data(0, all)));
        found_.saw(3, this->holds(warp_, 0, all, version));
    }

    // Two requests of the group's side by side; one object takes no second one meanwhile.
    WARPBELL_D void pairs(u32 version) {
        request two[2];
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            this->fill(warp_, 0, all, phase == 0 ? version : this->zeros);
            WARPBELL_NO_UNROLL
            for (u32 k = 0; k < 3u; ++k) {
                const status said = start(two[k % 2u], phase == 0, k % 2u * half, half);
                found_.told(4, said, k < 2u ? status() : status(code::no_room));
            }
            WARPBELL_NO_UNROLL
            for (u32 k = 0; k < 2u; ++k) {
                ends(5, two[1u - k], half);
            }
            found_.saw(6, this->holds(warp_, 0, all, version));
        }
        found_.told(7, submit(warp_, s_, two[0], command::flush()));
        ends(8, two[0], 0);
    }

    // A lane has 0 to 7 blocks.
    WARPBELL_D void lanes_own(u32 version) {
        const u32 from = most * port::lane(), count = port::lane() % most, end = from + count;
        const optional<extent> where =
            count != 0 ? optional<extent>(this->blocks(from, count)) : optional<extent>();
        request one;
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            this->fill(from, end, 1, phase == 0 ? version : this->zeros);
            const dma_span data = this->data(from, count);
            found_.told(9, phase == 0 ? submit_each(warp_, s_, one, command::write(where, data))
                                      : submit_each(warp_, s_, one, command::read(where, data)));
            while (warp_.ballot(!try_wait(warp_, s_, one) && !this->stopped()) != 0) {
                port::pause();
            }
            ends(10, one, count); // the answer again
            found_.saw(11, this->holds(from, end, 1, version));
        }
    }

    // What became of it is known, and how far it came.
    WARPBELL_D void cancels() {
        request one;
        found_.told(12, submit(warp_, s_, one, command::read(this->blocks(0, all), this->data(128, all))));
        const status said = cancel(warp_, s_, one);
        const bool known = said.ok() || said.is(code::timed_out) || said.is(code::aborted);
        const u64 bytes = static_cast<u64>(all) * s_.block_bytes();
        found_.judge(13, said,
                     known && !one.pending() && (said.ok() ? one.bytes() == bytes : one.bytes() < bytes));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
