// Commands beside reads and writes, and Force Unit Access.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class commands_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit commands_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            const u32 version = 1u + 2u * round;
            zeroes(version);
            forces(version + 1u);
            found_.told(17, flush(warp_, s_));
            compares(version);
            deallocates(version);
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_, check_warp<Mode>::warp_;
    static constexpr u32 far = 64, far_end = 96; // blocks of the warp's I/Os

    WARPBELL_D extent mine() const { return this->blocks(port::lane()); }
    WARPBELL_D dma_span own() const { return this->data(port::lane()); }
    WARPBELL_D void fill_own(u32 version) { this->fill(port::lane(), port::lane() + 1u, 1, version); }
    WARPBELL_D bool own_holds(u32 version) {
        return this->holds(port::lane(), port::lane() + 1u, 1, version);
    }

    // Twice; the second time odd lanes hold something else.
    WARPBELL_D void compares(u32 version) {
        fill_own(version);
        found_.told(1, write_each(warp_, s_, mine(), own()));
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            const bool other = phase != 0 && (port::lane() & 1u) != 0;
            if (other) {
                this->words_of(port::lane())[5] ^= 1u;
            }
            warp_.sync();
            const status each = run_each(warp_, s_, command::compare(mine(), own()));
            found_.judge(2, each, other ? each.differs() : each.ok());
            const status whole =
                warpbell::run(warp_, s_, command::compare(this->blocks(0, 32), this->data(0, 32)));
            found_.judge(3, whole, phase != 0 ? whole.differs() : whole.ok());
        }
    }

    // The even lanes', as `compares` has left them. What such blocks hold is the SSD's affair: the host polls
    // at those of a soft controller, after the last round. Those of the others are as they were.
    WARPBELL_D void deallocates(u32 version) {
        const bool even = (port::lane() & 1u) == 0;
        const optional<extent> some = even ? optional<extent>(mine()) : optional<extent>();
        found_.told(18, deallocate(warp_, s_, some, this->data(far_end)));
        fill_own(this->zeros);
        found_.told(19, read_each(warp_, s_, mine(), own()));
        found_.saw(20, even || own_holds(version));
    }

    WARPBELL_D void zeroes(u32 version) {
        found_.told(4, run_each(warp_, s_, command::write_zeroes(mine())));
        fill_own(version);
        found_.told(5, read_each(warp_, s_, mine(), own()));
        found_.saw(6, own_holds(this->zeros));
        const extent there = this->blocks(far, far_end - far);
        const dma_span all = this->data(far, far_end - far);
        this->fill(warp_, far, far_end, version);
        found_.told(7, write(warp_, s_, there, all));
        found_.told(8, warpbell::run(warp_, s_, command::write_zeroes(there)));
        found_.told(9, read(warp_, s_, there, all));
        found_.saw(10, this->holds(warp_, far, far_end, this->zeros));
    }

    WARPBELL_D void forces(u32 version) {
        const extent there = this->blocks(far, far_end - far);
        const dma_span all = this->data(far, far_end - far);
        fill_own(version);
        found_.told(11, run_each(warp_, s_, command::write(mine(), own(), command::fua)));
        fill_own(this->zeros);
        found_.told(12, run_each(warp_, s_, command::read(mine(), own(), command::fua)));
        found_.saw(13, own_holds(version));
        this->fill(warp_, far, far_end, version);
        found_.told(14, warpbell::run(warp_, s_, command::write(there, all, command::fua)));
        this->fill(warp_, far, far_end, this->zeros);
        found_.told(15, warpbell::run(warp_, s_, command::read(there, all, command::fua)));
        found_.saw(16, this->holds(warp_, far, far_end, version));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
