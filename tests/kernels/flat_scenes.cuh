// Scenes of flat.cu in which calls are made that may be made, by the flat layer or by the C++ API.
#pragma once

#include "flat_calls.cuh"

namespace kernels {

enum class scene : u32 {
    io,
    refused,
    dead,
    lost,
    array,
    misuse,
    pending,
    late,
    crowded,
    pages,
    page,
    pinned,
    commands,
    any,
    adds
};

// What is done, by either.
template <class Calls, class Group> class player {
  public:
    WARPBELL_D explicit player(const flat_args& args)
        : args_(args), calls_(args), lane_(port::lane()), block_bytes_(1u << args.ns.block_shift) {}

    WARPBELL_D void run() {
        said(calls_.attached());
        switch (static_cast<scene>(args_.scene)) {
        case scene::io:
            io();
            break;
        case scene::refused:
            refused();
            break;
        case scene::dead:
            dead();
            break;
        case scene::lost:
            lost();
            break;
        case scene::pending:
            pending();
            break;
        case scene::late:
            late();
            break;
        case scene::crowded:
            crowded();
            break;
        case scene::commands:
            commands();
            break;
        case scene::any:
            any();
            break;
        default:
            of_elements();
            break;
        }
        said(calls_.detach());
    }

  private:
    static constexpr bool warp_wide = is_warp<Group>;

    WARPBELL_D void of_elements() {
        switch (args_.element_bytes) {
        case 1:
            return of_size<u8>();
        case 2:
            return of_size<u16>();
        case 4:
            return of_size<u32>();
        case 8:
            return of_size<u64>();
        default:
            return of_size<wide>();
        }
    }
    template <class T> WARPBELL_D void of_size() {
        switch (static_cast<scene>(args_.scene)) {
        case scene::pages:
            return pages<T>();
        case scene::page:
            return page<T>();
        case scene::adds:
            return adds<T>();
        default:
            return arrays<T>();
        }
    }

    WARPBELL_D flat_note& note() const { return reinterpret_cast<flat_note*>(args_.notes)[lane_]; }
    WARPBELL_D void said(u32 status) {
        const u64 now = port::clock_ns();
        note().took_ns[note().calls] = now - then_;
        note().said[note().calls++] = status;
        then_ = now;
    }
    WARPBELL_D void saw(u64 value) { note().saw[note().calls - 1u] = value; }
    // Two blocks of this lane's; those of all lanes lie side by side where they are one I/O.
    WARPBELL_D u64 first() const { return warp_wide ? 2u * lane_ : 4u * lane_; }
    WARPBELL_D blocks_of blocks(u64 block, u32 count) const {
        return blocks_of{block, count, &args_.buffer, block * block_bytes_};
    }
    WARPBELL_D blocks_of mine() const { return blocks(first(), 2); }
    WARPBELL_D blocks_of whole() const { return warp_wide ? blocks(0, 64) : mine(); }
    WARPBELL_D u64* word(u32 k) const {
        return reinterpret_cast<u64*>(args_.buffer.data + (first() + k) * block_bytes_);
    }
    WARPBELL_D void fill(u64 seed) {
        for (u32 k = 0; k < 2u; ++k) {
            *word(k) = seed == 0 ? 0 : seed << 32 ^ (first() + k);
        }
        Group().sync();
    }
    WARPBELL_D void look() { saw(*word(0) ^ *word(1) << 8); }
    WARPBELL_D void io() {
        u64 token = 0;
        fill(1);
        said(calls_.move(true, whole()));
        fill(0);
        said(calls_.move(false, whole()));
        look();
        said(calls_.flush());
        fill(2);
        said(calls_.begin(true, whole(), token));
        said(calls_.wait(token));
        fill(0);
        said(calls_.begin(false, whole(), token));
        said(calls_.poll(token));
        look();
        said(calls_.begin_flush(token));
        said(calls_.wait(token));
        fill(0);
        said(calls_.begin(false, whole(), token));
        said(calls_.flush()); // whoever waits for it collects what came before
        said(calls_.cancel(token));
        look();
        if constexpr (warp_wide) {
            io_each();
        }
    }

    WARPBELL_D void io_each() {
        u64 token = 0;
        fill(3);
        said(calls_.move_each(true, mine()));
        fill(0);
        said(calls_.move_each(false, mine()));
        look();
        fill(4);
        said(calls_.begin_each(true, mine(), token));
        said(calls_.wait_each(token));
        fill(0);
        said(calls_.begin_each(false, mine(), token));
        said(calls_.poll_each(token));
        look();
        // Half of the lanes have nothing to do.
        fill(0);
        said(calls_.move_each(false, blocks(first(), lane_ < 16u ? 2 : 0)));
        look();
        said(calls_.begin_each(false, blocks(first(), lane_ < 16u ? 2 : 0), token));
        said(calls_.flush());
        said(calls_.cancel_each(token));
        look();
    }

    // What must be refused; 6: what is too large for a call that does not wait; 7: nothing is wrong.
    WARPBELL_D blocks_of wrong(u32 what) const {
        const u32 most = args_.ns.max_blocks;
        switch (what) {
        case 0:
            return blocks_of{args_.ns.blocks, 1, &args_.buffer, 0};
        case 1:
            return blocks_of{0, 1, &args_.buffer, args_.buffer.bytes};
        case 2:
            return blocks_of{0, 1, &args_.buffer, 2};
        case 3:
            return blocks_of{0, 0, &args_.buffer, 0};
        case 4:
            return blocks_of{0, 1, nullptr, 0};
        case 5:
            return blocks_of{~0ull, 2, &args_.buffer, 0};
        case 6:
            return blocks(0, warp_wide ? 32u * most + 1u : most + 1u);
        default:
            return blocks(0, 1);
        }
    }
    WARPBELL_D void refused() {
        u64 token = 0;
        for (u32 what = 0; what < 8u; ++what) {
            said(calls_.move(false, wrong(what)));
            said(calls_.move(true, wrong(what)));
            said(calls_.begin(false, wrong(what), token));
            said(calls_.wait(token));
        }
        if constexpr (warp_wide) {
            blocks_of own = wrong(lane_ & 7u);
            own.blocks = (lane_ & 7u) == 6u ? args_.ns.max_blocks + 1u : own.blocks;
            said(calls_.move_each(false, own));
            said(calls_.begin_each(false, own, token));
            said(calls_.wait_each(token));
        }
    }

    // The controller does nothing.
    WARPBELL_D void dead() {
        u64 tokens[5] = {};
        said(calls_.move(false, whole()));
        for (u64& token : tokens) {
            said(calls_.begin(false, whole(), token));
        }
        said(calls_.cancel(tokens[0]));
        said(calls_.wait(tokens[1]));
        said(calls_.wait(tokens[4]));
        said(calls_.flush());
    }

    // The host has given the queue up, before the kernel began.
    WARPBELL_D void lost() {
        u64 token = 0;
        fill(0);
        said(calls_.move(false, whole()));
        said(calls_.begin(false, whole(), token));
        said(calls_.wait(token));
        said(calls_.flush());
        said(calls_.successor(args_.patience_ns));
        said(calls_.move(false, whole()));
        look();
    }

    // The controller does nothing, so that nothing has come, and what has not come may still.
    WARPBELL_D void pending() {
        u64 token = 0;
        said(calls_.begin(false, whole(), token));
        said(calls_.look(token));
        said(calls_.look(token));
        said(calls_.wait(token));
        said(calls_.look(token)); // answered once
        said(calls_.begin_flush(token));
        said(calls_.look(token));
        said(calls_.cancel(token));
        if constexpr (warp_wide) {
            said(calls_.begin_each(true, mine(), token));
            said(calls_.look_each(token));
            said(calls_.wait_each(token));
            said(calls_.look_each(token));
        }
    }

    // The same: each call that waits, until its time is over.
    WARPBELL_D void late() {
        u64 token = 0;
        said(calls_.move(false, whole()));
        said(calls_.move(true, whole()));
        said(calls_.flush());
        said(calls_.begin(false, whole(), token));
        said(calls_.wait(token));
        said(calls_.begin(true, whole(), token));
        said(calls_.wait(token));
        said(calls_.begin_flush(token));
        said(calls_.wait(token));
        if constexpr (warp_wide) {
            said(calls_.move_each(false, mine()));
            said(calls_.move_each(true, mine()));
            said(calls_.begin_each(false, mine(), token));
            said(calls_.wait_each(token));
        }
    }

    // The same on a ring with room for three commands: what begins waits for room.
    WARPBELL_D void crowded() {
        u64 tokens[4] = {};
        for (u64& token : tokens) {
            said(calls_.begin(false, mine(), token));
        }
        said(calls_.begin(true, mine(), tokens[3]));
        said(calls_.begin_flush(tokens[3]));
        if constexpr (warp_wide) {
            said(calls_.begin_each(false, mine(), tokens[3]));
            said(calls_.begin_each(true, mine(), tokens[3]));
        }
        said(calls_.wait(tokens[0]));
    }

    // Elements of a page for each lane: some of them cannot be read or written, or there are fewer lines.
    template <class T> WARPBELL_D void pages() {
        typename Calls::template array<T> array(calls_);
        said(array.opened());
        const u64 own = lane_ * (block_bytes_ / sizeof(T));
        T value = 1;
        said(array.get(own, value));
        saw(static_cast<u64>(value));
        said(array.put(own, static_cast<T>(~own)));
        said(array.get(own, value));
        saw(static_cast<u64>(value));
        said(array.flush());
        said(array.get(own + 1u, value));
        said(array.close());
    }

    // Two pages of one lane, in a cache of one line.
    template <class T> WARPBELL_D void page() {
        typename Calls::template array<T> array(calls_);
        said(array.opened());
        if (warp_wide || lane_ == 0) {
            const u64 other = block_bytes_ / sizeof(T);
            T value = 1;
            said(get_one(array, 0, value));
            saw(static_cast<u64>(value));
            said(put_one(array, 0, static_cast<T>(5)));
            said(get_one(array, other, value));
            saw(static_cast<u64>(value));
            said(put_one(array, other, static_cast<T>(6)));
            said(array.flush());
        }
        said(array.close());
    }
    template <class Array, class T> WARPBELL_D u32 get_one(Array& array, u64 index, T& value) {
        if constexpr (warp_wide) {
            return array.get_each(lane_ == 0 ? index : WARPBELL_NO_INDEX, value);
        } else {
            return array.get(index, value);
        }
    }
    template <class Array, class T> WARPBELL_D u32 put_one(Array& array, u64 index, T value) {
        if constexpr (warp_wide) {
            return array.put_each(lane_ == 0 ? index : WARPBELL_NO_INDEX, value);
        } else {
            return array.put(index, value);
        }
    }

    WARPBELL_D warpbell_command of(u32 operation, const blocks_of& which, u32 flags) const {
        return warpbell_command{operation, flags, which.block, which.buffer, which.offset, which.blocks, 0};
    }
    // What begins is waited for.
    WARPBELL_D void both(const warpbell_command& what) {
        u64 token = 0;
        said(calls_.execute(what));
        look();
        said(calls_.submit(what, token));
        said(calls_.wait(token));
    }
    WARPBELL_D void both_each(const warpbell_command& what) {
        u64 token = 0;
        said(calls_.execute_each(what));
        look();
        said(calls_.submit_each(what, token));
        said(calls_.wait_each(token));
    }
    WARPBELL_D void commands() {
        fill(1);
        both(of(WARPBELL_OPCODE_WRITE, whole(), WARPBELL_FUA));
        both(of(WARPBELL_OPCODE_COMPARE, whole(), 0));
        fill(0);
        both(of(WARPBELL_OPCODE_READ, whole(), WARPBELL_FUA));
        fill(2);
        both(of(WARPBELL_OPCODE_COMPARE, whole(), 0));
        both(of(WARPBELL_OPCODE_WRITE_ZEROES, {whole().block, whole().blocks, nullptr, 0}, WARPBELL_FUA));
        both(of(WARPBELL_OPCODE_READ, whole(), 0));
        both(of(WARPBELL_OPCODE_FLUSH, {0, 0, nullptr, 0}, 0));
        // Refused.
        both(of(WARPBELL_OPCODE_FLUSH, {0, 0, nullptr, 0}, WARPBELL_FUA));
        both(of(WARPBELL_OPCODE_READ, whole(), 1));
        both(of(0x100u + WARPBELL_OPCODE_READ, whole(), 0));
        // Dataset Management, Verify, Reservation Release, Copy, and one of a vendor's.
        const u32 others[] = {9, 0x0c, 0x15, 0x19, 0x81};
        for (const u32 other : others) {
            both(of(other, whole(), 0));
        }
        both(of(WARPBELL_OPCODE_WRITE_ZEROES, {args_.ns.blocks, 1, nullptr, 0}, 0));
        both(of(WARPBELL_OPCODE_COMPARE, {0, 1, nullptr, 0}, 0));
        if constexpr (warp_wide) {
            fill(3);
            both_each(of(WARPBELL_OPCODE_WRITE, mine(), WARPBELL_FUA));
            fill(lane_ % 2u == 0 ? 3 : 4);
            both_each(of(WARPBELL_OPCODE_COMPARE, mine(), 0));
            // Half of the lanes have nothing to do.
            both_each(of(WARPBELL_OPCODE_WRITE_ZEROES, blocks(first(), lane_ < 16u ? 2 : 0), 0));
            both_each(of(WARPBELL_OPCODE_READ, mine(), 0));
            both_each(of(WARPBELL_OPCODE_FLUSH, {0, 0, nullptr, 0}, 0));
        }
    }

    // Two tokens, of lanes below 16 three, in any order; then there are none; and what is left is given up.
    WARPBELL_D void any() {
        u64 tokens[3] = {io_token().bits(), io_token().bits(), io_token().bits()};
        const u32 count = lane_ < 16u ? 3 : 2;
        u64 found = 0;
        for (u32 k = 0; k < 3u; ++k) {
            const blocks_of own = blocks(first(), k < count ? 2 : 0);
            if constexpr (warp_wide) {
                said(calls_.submit_each(of(WARPBELL_OPCODE_READ, own, 0), tokens[k]));
            } else if (k < count) {
                said(calls_.submit(of(WARPBELL_OPCODE_READ, own, 0), tokens[k]));
            }
        }
        for (u32 k = 0; k < 4u; ++k) {
            u32 index = 7;
            said(calls_.any(tokens, count, index));
            found |= index == WARPBELL_NO_TOKEN ? 0x100u << k : 1u << index;
            saw(found & ~7ull); // which comes first is not said
        }
        saw(found);
        for (u64& token : tokens) {
            said(warp_wide ? calls_.cancel_each(token) : calls_.cancel(token));
        }
    }

    template <class T> WARPBELL_D void adds() {
        typename Calls::template array<T> array(calls_);
        said(array.opened());
        const u64 own = lane_ * 9u;
        T value = 0;
        said(array.put(own, static_cast<T>(own)));
        said(array.add(own, ~0ull)); // one less
        said(array.get(own, value));
        saw(static_cast<u64>(value));
        said(array.add(args_.elements, 1));
        if constexpr (warp_wide) {
            // Two lanes for each element, and lanes without one.
            said(array.add(lane_ % 4u == 3u ? WARPBELL_NO_INDEX : lane_ / 2u * 18u, lane_ + 1u));
            said(array.get(lane_ / 2u * 18u, value));
            saw(static_cast<u64>(value));
        }
        said(array.flush());
        said(array.close());
    }

    template <class T> WARPBELL_D void arrays() {
        typename Calls::template array<T> array(calls_);
        said(array.opened());
        const u64 own =
            lane_ * 9u; // of 8 bytes, lane 7's lies across two pages where the array begins at byte 4
        T value = 0;
        said(array.put(own, static_cast<T>(~own)));
        said(array.get(own, value));
        saw(static_cast<u64>(value));
        said(array.get(own + 1u, value));
        saw(static_cast<u64>(value));
        said(array.get(args_.elements, value));
        saw(static_cast<u64>(value));
        if constexpr (warp_wide) {
            const u64 index = lane_ % 3u == 0 ? WARPBELL_NO_INDEX : own + 2u;
            said(array.put_each(index, static_cast<T>(own * 7u)));
            said(array.get_each(index, value));
            saw(static_cast<u64>(value));
        }
        said(array.flush());
        said(array.close());
    }

    const flat_args& args_;
    Calls calls_;
    const u32 lane_;
    const u64 block_bytes_;
    u64 then_ = port::clock_ns(); // when the last call was made
};

} // namespace kernels
