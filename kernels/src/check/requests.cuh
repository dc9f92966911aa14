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

    WARPBELL_D bool moved(const request& one, u32 blocks) const {
        return one.bytes() == static_cast<u64>(blocks) * s_.block_bytes() && !one.pending();
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
        request low, high;
        this->fill(warp_, 0, all, version);
        found_.told(4, write_async(warp_, s_, low, this->blocks(0, half), this->data(0, half)));
        found_.told(5, write_async(warp_, s_, high, this->blocks(half, half), this->data(half, half)));
        found_.told(6, flush_async(warp_, s_, high), code::no_room);
        ends(7, low, high);
        this->fill(warp_, 0, all, this->zeros);
        found_.told(10, read_async(warp_, s_, low, this->blocks(0, half), this->data(0, half)));
        found_.told(11, read_async(warp_, s_, high, this->blocks(half, half), this->data(half, half)));
        ends(12, low, high);
        found_.saw(15, this->holds(warp_, 0, all, version));
        found_.told(16, flush_async(warp_, s_, low));
        found_.told(17, wait(warp_, s_, low));
    }
    WARPBELL_D void ends(u32 step, request& low, request& high) {
        const status later = wait(warp_, s_, high);
        found_.judge(step, later, later.ok() && moved(high, half));
        const status said = wait(warp_, s_, low);
        found_.judge(step + 1u, said, said.ok() && moved(low, half));
    }

    // A lane has 0 to 7 blocks.
    WARPBELL_D void lanes_own(u32 version) {
        const u32 from = most * port::lane(), count = port::lane() % most, end = from + count;
        const optional<extent> where =
            count != 0 ? optional<extent>(this->blocks(from, count)) : optional<extent>();
        request one;
        this->fill(from, end, 1, version);
        found_.told(18, write_each_async(warp_, s_, one, where, this->data(from, count)));
        const status written = wait(warp_, s_, one);
        found_.judge(19, written, written.ok() && moved(one, count));
        this->fill(from, end, 1, this->zeros);
        found_.told(20, read_each_async(warp_, s_, one, where, this->data(from, count)));
        while (warp_.ballot(!try_wait(warp_, s_, one) && !this->stopped()) != 0) {
            port::pause();
        }
        const status got = wait(warp_, s_, one); // the answer again
        found_.judge(21, got, got.ok() && moved(one, count));
        found_.saw(22, this->holds(from, end, 1, version));
    }

    // What became of it is known, and how far it came.
    WARPBELL_D void cancels() {
        request one;
        found_.told(23, read_async(warp_, s_, one, this->blocks(0, all), this->data(128, all)));
        const status said = cancel(warp_, s_, one);
        const bool known = said.ok() || said.is(code::timed_out) || said.is(code::aborted);
        const u64 bytes = static_cast<u64>(all) * s_.block_bytes();
        found_.judge(24, said, known && !one.pending() && (said.ok() ? one.bytes() == bytes : one.bytes() < bytes));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
