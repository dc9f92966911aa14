// Requests in an order: io_order, of both classes.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode> class order_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit order_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            const u32 version = 1u + steps * round;
            in_turn(version);
            in_delivery(version);
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

    // Each step writes the same blocks, another lane's in each; a flush comes in between. The last one's contents
    // stay only if no step overtook another.
    WARPBELL_D void in_turn(u32 version) {
        io_order<ordering::completion, depth> order;
        u32 taken = 0;
        for (u32 k = 0; k < steps; ++k) {
            fill_own(place(k), version + k);
            if (order.size() == depth) {
                found_.told(1, flush_async(warp_, s_, order), code::no_room);
                found_.told(2, take(warp_, s_, order).result);
                ++taken;
            }
            const extent where = this->blocks(target(k));
            found_.told(3, k == steps / 2u
                               ? flush_async(warp_, s_, order)
                               : write_each_async(warp_, s_, order, where, this->data(place(k))));
        }
        for (; taken < steps; ++taken) {
            found_.told(4, take(warp_, s_, order).result);
        }
        found_.told(5, take(warp_, s_, order).result, code::invalid_field);
        fill_own(port::lane(), this->zeros);
        found_.told(6, read_each(warp_, s_, this->blocks(target(steps - 1u)), this->data(port::lane())));
        // Block and buffer have different numbers: the contents are those of where they were made.
        found_.saw(7, same(port::lane(), place(steps - 1u)));
    }
    WARPBELL_D static u32 target(u32 k) { return (port::lane() + k) % 32u; }
    WARPBELL_D bool same(u32 one, u32 other) const {
        bool right = true;
        for (u32 i = 0; i < s_.block_bytes() / 8u; ++i) {
            right = right && this->words_of(one)[i] == this->words_of(other)[i];
        }
        return right;
    }

    // All are under way at once, and handed over one after the other, each with its data.
    WARPBELL_D void in_delivery(u32 version) {
        io_order<ordering::delivery, depth> order;
        for (u32 k = 0; k < depth; ++k) {
            fill_own(place(k), version + k);
            found_.told(8, write_each_async(warp_, s_, order, this->blocks(place(k)), this->data(place(k))));
        }
        for (u32 k = 0; k < depth; ++k) {
            found_.told(9, take(warp_, s_, order).result);
        }
        for (u32 k = 0; k < depth; ++k) {
            fill_own(place(k), this->zeros);
            found_.told(10, read_each_async(warp_, s_, order, this->blocks(place(k)), this->data(place(k))));
        }
        for (u32 k = 0; k < depth; ++k) {
            const ordered_answer next = take(warp_, s_, order);
            found_.judge(11, next.result, next.result.ok() && next.bytes == s_.block_bytes());
            found_.saw(12, own_holds(place(k), version + k));
        }
        found_.judge(13, status(), !try_take(warp_, s_, order));
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
