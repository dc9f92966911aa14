// Several commands of a lane at a time: which is answered first, all of them, and no longer.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class outstanding_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit outstanding_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            writes(1u + round);
            reads(1u + round);
        }
        // Its buffers may be the controller's until the queue is deleted.
        if (this->goes_on(0)) {
            cancels();
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_, check_warp<Mode>::warp_;
    static constexpr u32 most = 4; // identifiers of a lane

    WARPBELL_D u32 own(u32 k) const { return most * port::lane() + k; }

    WARPBELL_D void writes(u32 version) {
        io_token tokens[most];
        this->fill(own(0), own(most), 1, version);
        WARPBELL_NO_UNROLL
        for (u32 k = 0; k < most; ++k) {
            tokens[k] = submit_each(warp_, s_, command::write(this->blocks(own(k)), this->data(own(k))));
        }
        found_.told(1, wait_all(warp_, s_, tokens));
    }

    WARPBELL_D void reads(u32 version) {
        io_token tokens[most];
        this->fill(own(0), own(most), 1, this->zeros);
        WARPBELL_NO_UNROLL
        for (u32 k = 0; k < most; ++k) {
            tokens[k] = submit_each(warp_, s_, command::read(this->blocks(own(k)), this->data(own(k))));
        }
        // One more than there are identifiers.
        io_token refused = submit_each(warp_, s_, command::read(this->blocks(own(0)), this->data(own(0))));
        found_.told(2, wait_each(warp_, s_, move(refused)), code::no_cid);
        u32 answered = 0;
        WARPBELL_NO_UNROLL
        for (u32 k = 0; k < most; ++k) {
            const any_status one = wait_any(warp_, s_, tokens);
            const bool fresh = one.index < most && (answered >> one.index & 1u) == 0;
            answered |= fresh ? 1u << one.index : 0;
            found_.judge(3, one.result, one.result.ok() && fresh);
            found_.saw(4, !fresh || this->holds(own(one.index), own(one.index) + 1u, 1, version));
        }
        const any_status none = wait_any(warp_, s_, tokens);
        found_.judge(5, none.result, none.result.ok() && none.index == any_status::none);
    }

    // Reads into the second half of the buffer. What became of it is known; it may have been answered.
    WARPBELL_D void cancels() {
        const u32 mine = 128u + port::lane(), all = 160u;
        io_token one = submit_each(warp_, s_, command::read(this->blocks(own(0)), this->data(mine)));
        const status said = cancel_each(warp_, s_, move(one));
        found_.judge(6, said, said.ok() || said.is(code::timed_out));
        found_.saw(7, !said.ok() || this->alike(mine, own(0)));
        io_token whole = submit(warp_, s_, command::read(this->blocks(0, 64), this->data(all, 64)));
        const status all_said = cancel(warp_, s_, move(whole));
        found_.judge(8, all_said, all_said.ok() || all_said.is(code::timed_out));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
