// Kernels `split_test` and `order_test`: asynchronous requests of any size, and requests in an order. Each
// warp has blocks, data and records of its own.
#include "src/common.cuh"

struct pieces_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // as large as all warps' blocks
    uint64_t records;           // piece_record[warps][rounds][32]
    uint64_t seed;
    uint64_t timeout_ns;
    uint32_t mode;
    uint32_t blocks; // of a lane
    uint32_t rounds;
    uint32_t pad;
};

struct piece_record {
    uint32_t answers;
    uint32_t status;
    uint32_t wrong; // blocks
    uint32_t pad;
    uint64_t bytes;
};

namespace kernels {
using namespace warpbell::experimental;

enum class split : u32 { whole, each, pair, polled, cancelled, again, starved };
enum class steps : u32 { in_turn, delivered, log };
constexpr u32 depth = 4;

// A warp's blocks, and what is noted of them.
template <sharing Mode> class region {
  public:
    WARPBELL_D explicit region(const pieces_args& args)
        : args_(args), warp_(), s_(warp_, args.ns, warp_number()), lane_(port::lane()),
          first_(static_cast<u64>(warp_number()) * args.blocks * 32u) {}
    WARPBELL_D ~region() { s_.detach(warp_); }

  protected:
    WARPBELL_D u64 content(u64 block) const { return splitmix64(args_.seed ^ block); }
    WARPBELL_D dma_span data(u64 block, u64 count) const {
        const u64 bytes = s_.block_bytes();
        return dma_span(args_.buffer).subspan((first_ + block) * bytes, count * bytes);
    }
    WARPBELL_D u64* word(u64 block) const { return data(block, 1).template data<u64>(); }
    WARPBELL_D extent blocks(u64 block, u32 count) const { return extent{lba(first_ + block), count}; }
    WARPBELL_D bool holds(u64 block, u64 value) const {
        return port::load_relaxed_gpu(reinterpret_cast<const u32*>(word(block))) == static_cast<u32>(value);
    }
    WARPBELL_D piece_record& record(u32 round) const {
        const u64 at = (static_cast<u64>(warp_number()) * args_.rounds + round) * 32u + lane_;
        return reinterpret_cast<piece_record*>(args_.records)[at];
    }
    WARPBELL_D void note(u32 round, status said, u64 bytes) const {
        piece_record& noted = record(round);
        ++noted.answers;
        noted.status = said.bits;
        noted.bytes = bytes;
    }

    const pieces_args& args_;
    const this_warp_t warp_;
    session<Mode> s_;
    const u32 lane_;
    const u64 first_;
};

template <sharing Mode> class splitter : region<Mode> {
  public:
    WARPBELL_D explicit splitter(const pieces_args& args) : region<Mode>(args) {}

    // Writes in round 0, reads in round 1.
    WARPBELL_D void run() {
        for (u32 round = 0; round < 2u; ++round) {
            for (u32 block = lane_; block < args_.blocks * 32u; block += 32u) {
                port::store_relaxed_gpu(word(block), round == 0 ? content(first_ + block) : 0);
            }
            warp_.sync();
            make(round);
            warp_.sync();
        }
    }

  private:
    using base = region<Mode>;
    using base::args_, base::warp_, base::s_, base::lane_, base::first_;
    using base::blocks, base::content, base::data, base::holds, base::note, base::record, base::word;

    template <u32 Commands>
    WARPBELL_D void start(io_request<Commands>& request, u32 round, u32 from, u32 count, bool whole) {
        const extent where = blocks(from, count);
        const optional<extent> mine = count != 0 ? optional<extent>(where) : nullopt;
        const dma_span span = data(from, count);
        status begun;
        if (whole) {
            begun = round == 0 ? submit(warp_, s_, request, command::write(where, span))
                               : submit(warp_, s_, request, command::read(where, span));
        } else {
            begun = round == 0 ? submit_each(warp_, s_, request, command::write(mine, span))
                               : submit_each(warp_, s_, request, command::read(mine, span));
        }
        record(round).pad |= begun.bits;
    }
    // What it moved is right.
    template <u32 Commands>
    WARPBELL_D void check(const io_request<Commands>& request, u32 round, u32 from, u32 step) {
        for (u64 k = step == 1u ? 0 : lane_; k < request.bytes() / s_.block_bytes(); k += step) {
            record(round).wrong += !holds(from + k, content(first_ + from + k));
        }
        record(round).pad |= request.pending();
    }

    WARPBELL_D void make(u32 round) {
        const split mode = static_cast<split>(args_.mode);
        const u32 all = args_.blocks * 32u, own = lane_ * args_.blocks;
        if (mode == split::pair) {
            io_request<2> low, high;
            start(low, round, 0, all / 2u, true);
            start(high, round, all / 2u, all / 2u, true);
            const status later = wait(warp_, s_, high, args_.timeout_ns);
            const status said = wait(warp_, s_, low, args_.timeout_ns);
            note(round, detail::worse_of(said, later), low.bytes() + high.bytes());
            check(low, round, 0, 32);
            check(high, round, all / 2u, 32);
            return;
        }
        // All ids of the lane are in flight.
        io_token tokens[4];
        for (u32 k = 0; k < 4u && mode == split::starved; ++k) {
            tokens[k] = submit_each(warp_, s_, command::read(blocks(own + k, 1), data(own + k, 1)));
        }
        io_request<3> request;
        const bool whole = mode == split::whole;
        whole ? start(request, round, 0, all, true)
              : start(request, round, own, lane_ % (args_.blocks + 1u), false);
        if (mode == split::cancelled) {
            const status said = cancel(warp_, s_, request);
            note(round, said, request.bytes());
            return;
        }
        if (mode == split::again) {
            const status second =
                submit_each(warp_, s_, request, command::read(blocks(own, 1), data(own, 1)));
            record(round).pad |= request.pending() && !second.is(code::no_room);
        }
        optional<status> said = nullopt;
        while (mode == split::polled && warp_.ballot(!said) != 0) {
            const optional<status> now = try_wait(warp_, s_, request);
            said = said ? said : now;
            port::pause();
        }
        const status last = wait(warp_, s_, request, args_.timeout_ns);
        note(round, last, request.bytes());
        check(request, round, whole ? 0 : own, whole ? 32u : 1u);
        record(round).pad |= !wait_all(warp_, s_, tokens).ok();
    }
};

template <sharing Mode> class orderer : region<Mode> {
  public:
    WARPBELL_D explicit orderer(const pieces_args& args) : region<Mode>(args) {}

    WARPBELL_D void run() {
        if (static_cast<steps>(args_.mode) == steps::delivered) {
            run_steps<ordering::delivery>();
            record(args_.rounds - 1u).pad = s_.queue().completes_in_order();
            return;
        }
        run_steps<ordering::completion>();
        // What the last step left, in a round of its own.
        warp_.sync();
        const u32 last = args_.rounds - 1u;
        record(last).wrong = after_.bits != 0;
        const status said = read_each(warp_, s_, blocks(lane_, 1), data(lane_, 1));
        note(last, said, 0);
        record(last).pad = port::load_relaxed_gpu(reinterpret_cast<const u32*>(word(lane_)));
    }

  private:
    using base = region<Mode>;
    using base::args_, base::warp_, base::s_, base::lane_, base::first_;
    using base::blocks, base::content, base::data, base::holds, base::note, base::record, base::word;

    status after_; // of a step behind all others

    // Data of step `k`, behind the blocks that are read in the end.
    WARPBELL_D static u32 room(u32 k) { return 32u * (k + 1u); }

    template <ordering Order> WARPBELL_D status post(io_order<Order, depth>& order, u32 k) {
        const u32 mine = room(k) + lane_;
        if (Order == ordering::delivery) {
            port::store_relaxed_gpu(word(mine), 0);
            return submit_each(warp_, s_, order, command::read(blocks(mine, 1), data(mine, 1)));
        }
        port::store_relaxed_gpu(word(mine), static_cast<u64>(k * 32u + lane_ + 1u));
        if (static_cast<steps>(args_.mode) == steps::in_turn) {
            return submit_each(warp_, s_, order, command::write(blocks((lane_ + k) % 32u, 1), data(mine, 1)));
        }
        warp_.sync();
        return k % 3u == 2u ? submit(warp_, s_, order, command::flush())
                            : submit(warp_, s_, order, command::write(blocks(0, 32), data(room(k), 32)));
    }
    template <ordering Order> WARPBELL_D void take_one(io_order<Order, depth>& order, u32 k) {
        const ordered_answer said = take(warp_, s_, order, args_.timeout_ns);
        note(k, said.result, said.bytes);
        if (Order == ordering::delivery && said.result.ok()) {
            record(k).wrong = !holds(room(k) + lane_, content(first_ + room(k) + lane_));
        }
    }
    template <ordering Order> WARPBELL_D void run_steps() {
        io_order<Order, depth> order;
        const u32 count = args_.rounds - 1u;
        u32 taken = 0;
        for (u32 k = 0; k < count; ++k) {
            if (order.size() == depth) {
                record(k).pad |= !post(order, k).is(code::no_room);
                take_one(order, taken++);
            }
            record(k).pad |= post(order, k).bits;
        }
        while (taken < count) {
            take_one(order, taken++);
        }
        // Whatever became of those before: all were taken.
        if (Order == ordering::completion && submit(warp_, s_, order, command::flush()).ok()) {
            after_ = take(warp_, s_, order).result;
        }
        const optional<ordered_answer> nothing = try_take(warp_, s_, order);
        record(0).pad |= nothing.has_value() || !take(warp_, s_, order).result.is(code::invalid_field);
    }
};

} // namespace kernels

WARPBELL_KERNEL(split_test, pieces_args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::splitter<wb::sharing::exclusive>(args).run();
    } else {
        kernels::splitter<wb::sharing::shared>(args).run();
    }
}

WARPBELL_KERNEL(order_test, pieces_args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::orderer<wb::sharing::exclusive>(args).run();
    } else {
        kernels::orderer<wb::sharing::shared>(args).run();
    }
}
