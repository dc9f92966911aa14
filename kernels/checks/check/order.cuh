// Requests in an order: io_order, of both classes.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {
using namespace warpbell::experimental;

template <sharing Mode> class order_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit order_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            const u32 version = 1u + steps * round;
            in_turn(version);
            in_delivery(version);
            of_group(version);
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_, check_warp<Mode>::warp_;
    static constexpr u32 depth = 4, steps = 6;

    // Of the buffer: of a lane, in step `k`.
    WARPBELL_D u32 place(u32 k) const { return 32u * (k + 1u) + port::lane(); }
    WARPBELL_D void fill_own(u32 block, u32 version) const { this->fill(block, block + 1u, 1, version); }
    WARPBELL_D bool own_holds(u32 block, u32 version) const {
        return this->holds(block, block + 1u, 1, version);
    }

    // Each step writes the same blocks, another lane's in each; a flush comes in between. The last one's
    // contents stay only if no step overtook another.
    WARPBELL_D void in_turn(u32 version) {
        io_order<ordering::completion, depth> order;
        u32 posted = 0, taken = 0;
        while (taken <= steps) {
            if (posted < steps) {
                // Until there is no room for another one.
                const status expected = order.size() == depth ? status(code::no_room) : status();
                fill_own(place(posted), version + posted);
                const extent where = this->blocks(target(posted));
                const dma_span data = this->data(place(posted));
                found_.told(1,
                            posted == steps / 2u ? submit(warp_, s_, order, command::flush())
                                                 : submit_each(warp_, s_, order, command::write(where, data)),
                            expected);
                if (expected.ok()) {
                    ++posted;
                    continue;
                }
            }
            // Once more than there are.
            const status expected = taken == steps ? status(code::invalid_field) : status();
            found_.told(2, take(warp_, s_, order).result, expected);
            ++taken;
        }
        fill_own(port::lane(), this->zeros);
        found_.told(3, read_each(warp_, s_, this->blocks(target(steps - 1u)), this->data(port::lane())));
        // The contents are those that the last step's block of the buffer has.
        found_.saw(4, this->alike(port::lane(), place(steps - 1u)));
    }
    WARPBELL_D static u32 target(u32 k) { return (port::lane() + k) % 32u; }

    // All are under way at once, and handed over one after the other, each with its data.
    WARPBELL_D void in_delivery(u32 version) {
        io_order<ordering::delivery, depth> order;
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            WARPBELL_NO_UNROLL
            for (u32 k = 0; k < depth; ++k) {
                fill_own(place(k), phase == 0 ? version + k : this->zeros);
                const extent where = this->blocks(place(k));
                const dma_span data = this->data(place(k));
                found_.told(5, phase == 0 ? submit_each(warp_, s_, order, command::write(where, data))
                                          : submit_each(warp_, s_, order, command::read(where, data)));
            }
            WARPBELL_NO_UNROLL
            for (u32 k = 0; k < depth; ++k) {
                const ordered_answer next = take(warp_, s_, order);
                found_.judge(6, next.result, next.result.ok() && next.bytes == s_.block_bytes());
                found_.saw(7, own_holds(place(k), version + k));
            }
        }
        found_.judge(8, status(), !try_take(warp_, s_, order));
    }

    // Requests of the whole warp: all blocks are written, half of them zeroed, and then read elsewhere.
    WARPBELL_D void of_group(u32 version) {
        constexpr u32 from = 32, half = 48, end = 64;
        const extent all = this->blocks(from, end - from);
        const dma_span written = this->data(from, end - from), read = this->data(end, end - from);
        io_order<ordering::completion, depth> order;
        this->fill(warp_, from, end, version);
        found_.told(9, submit(warp_, s_, order, command::write(all, written)));
        found_.told(10, submit(warp_, s_, order, command::write_zeroes(this->blocks(from, half - from))));
        found_.told(11, submit(warp_, s_, order, command::read(all, read)));
        WARPBELL_NO_UNROLL
        for (u32 k = 0; k < 3u; ++k) {
            const ordered_answer next = take(warp_, s_, order);
            const u64 bytes = static_cast<u64>(k == 1u ? half - from : end - from) * s_.block_bytes();
            found_.judge(12, next.result, next.result.ok() && next.bytes == bytes);
        }
        const u32 mine = from + port::lane(), there = end + port::lane();
        found_.saw(13,
                   mine < half ? this->holds(there, there + 1u, 1, this->zeros) : this->alike(there, mine));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
