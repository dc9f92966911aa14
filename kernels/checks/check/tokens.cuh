// Commands beside reads and writes, and Force Unit Access, with tokens.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class tokens_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit tokens_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            lanes_own(1u + 2u * round);
            together(2u + 2u * round);
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

    // All calls in one place: the compiler puts what they are made of wherever they stand.
    WARPBELL_D io_token start_own(u32 phase) {
        switch (phase) {
        case 0:
            return submit_each(warp_, s_, command::write(mine(), own(), command::fua));
        case 1:
        case 5:
            return submit_each(warp_, s_, command::compare(mine(), own()));
        case 3:
            return submit_each(warp_, s_, command::write_zeroes(mine()));
        default:
            return submit_each(warp_, s_, command::read(mine(), own(), command::fua));
        }
    }
    // Written, compared, read; zeros instead, read; and compared with what odd lanes hold otherwise.
    WARPBELL_D void lanes_own(u32 version) {
        const bool odd = (port::lane() & 1u) != 0;
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 6u; ++phase) {
            if (phase == 0 || phase == 2u || phase == 4u) {
                fill_own(phase == 2u ? this->zeros : version);
            }
            if (phase == 5u && odd) {
                this->words_of(port::lane())[5] ^= 1u;
            }
            const status said = wait_each(warp_, s_, start_own(phase));
            found_.judge(1u + phase, said, phase == 5u && odd ? said.differs() : said.ok());
            found_.saw(7, phase != 2u || own_holds(version));
            found_.saw(8, phase != 4u || own_holds(this->zeros));
        }
    }

    WARPBELL_D io_token start(u32 phase) {
        const extent there = this->blocks(far, far_end - far);
        const dma_span all = this->data(far, far_end - far);
        const optional<extent> some =
            (port::lane() & 1u) == 0 ? optional<extent>(this->blocks(far + port::lane())) : nullopt;
        switch (phase) {
        case 0:
            return submit(warp_, s_, command::write(there, all, command::fua));
        case 1:
            return submit(warp_, s_, command::compare(there, all));
        case 2:
            return submit(warp_, s_, command::flush());
        case 4:
            return submit(warp_, s_, command::write_zeroes(there));
        case 6:
            return submit_deallocate(warp_, s_, some, this->data(far_end));
        default:
            return submit(warp_, s_, command::read(there, all, command::fua));
        }
    }
    // The same by the whole warp. Last, every other block is deallocated: what such blocks hold is the SSD's
    // affair.
    WARPBELL_D void together(u32 version) {
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 7u; ++phase) {
            if (phase == 0 || phase == 3u || phase == 5u) {
                this->fill(warp_, far, far_end, phase == 3u ? this->zeros : version);
            }
            found_.told(9u + phase, wait(warp_, s_, start(phase)));
            found_.saw(16, phase != 3u || this->holds(warp_, far, far_end, version));
            found_.saw(17, phase != 5u || this->holds(warp_, far, far_end, this->zeros));
        }
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
