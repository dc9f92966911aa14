// Bodies of batch.cuh.
#pragma once

#include "../batch.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

// The warps of a group, and the one that this thread is in. A warp group is one by itself; a block is not.
template <class Group> WARPBELL_D decltype(auto) warp_of(const Group& group) {
    if constexpr (names_lanes<Group>(0)) {
        return (group);
    } else {
        return this_warp();
    }
}
template <class Group> WARPBELL_D u32 warps_of(const Group& group) {
    return names_lanes<Group>(0) ? 1u : group.size() / WARPBELL_WARP_LANES;
}
template <class Group> WARPBELL_D u32 warp_rank_of(const Group& group) {
    return names_lanes<Group>(0) ? 0u : group.thread_rank() / WARPBELL_WARP_LANES;
}
template <class Group> WARPBELL_D bool has_whole_warps(const Group& group) {
    return names_lanes<Group>(0) || group.size() % WARPBELL_WARP_LANES == 0;
}

// Of two answers that are given as one.
WARPBELL_D status worse_of(status first, status second) {
    return first.ok() || (second.buffer_in_use() && !first.buffer_in_use()) ? second : first;
}

} // namespace detail

template <u32 Slots>
template <class Group>
WARPBELL_D io_batch<Slots>::io_batch(const Group& who, storage& shared, u32 submitters) : shared_(shared) {
    const auto group = detail::block_or_warp(who);
    warp_ = detail::warp_rank_of(group);
    warps_ = detail::warps_of(group);
    const u32 most = submitters != 0 ? submitters : 1u;
    warps_ = most < warps_ ? most : warps_;
    for (u32 slot = group.thread_rank(); slot < Slots; slot += group.size()) {
        answer(slot, 0, 0);
    }
    if (!mutate::batch_begun_unseen) {
        group.sync();
    }
}

template <u32 Slots> WARPBELL_D status io_batch<Slots>::add(u32 slot, const command& what) {
    if (slot >= Slots || what.op == opcode::dataset_management || !detail::fits_flags(what.op, what.flags)) {
        return code::invalid_field;
    }
    if (!what.where) {
        return status();
    }
    if (is_asked(slot) && !mutate::batch_slot_taken) {
        return code::no_room;
    }
    const dma_span& data = what.data;
    const bool moves = detail::for_blocks(what.op) && detail::carries_blocks(what.op);
    if (moves && !data.inside()) {
        return code::out_of_buffer;
    }
    const u64 at = what.where->start.value, offset = moves ? data.offset() : 0,
              bytes = moves ? data.bytes() : 0;
    warpbell_buffer_ref buffer = {};
    if (moves) {
        buffer = data.buffer();
    }
    u32(*request)[Slots][4] = shared_.request;
    port::store_quad_any(request[0][slot], static_cast<u32>(at), static_cast<u32>(at >> 32),
                         what.where->blocks, what.flags | static_cast<u32>(what.op));
    port::store_quad_any(request[1][slot], static_cast<u32>(offset), static_cast<u32>(offset >> 32),
                         static_cast<u32>(bytes), static_cast<u32>(bytes >> 32));
    port::store_quad_any(request[2][slot], static_cast<u32>(buffer.iova), static_cast<u32>(buffer.iova >> 32),
                         static_cast<u32>(buffer.bytes), static_cast<u32>(buffer.bytes >> 32));
    port::store_quad_any(request[3][slot], static_cast<u32>(buffer.prp_iova),
                         static_cast<u32>(buffer.prp_iova >> 32), 0, 0);
    answer(slot, asked, 0);
    return status();
}

template <u32 Slots> WARPBELL_D typename io_batch<Slots>::request io_batch<Slots>::load(u32 slot) const {
    const u32(*request)[Slots][4] = shared_.request;
    u32 a, b, c, d;
    struct request found = {};
    port::load_quad_any(request[0][slot], a, b, c, d);
    found.where = extent{lba(port::pair(a, b)), c};
    found.op = static_cast<opcode>(d & 0xffffu);
    found.flags = d & ~0xffffu;
    port::load_quad_any(request[1][slot], a, b, c, d);
    found.offset = port::pair(a, b);
    found.bytes = port::pair(c, d);
    port::load_quad_any(request[2][slot], a, b, c, d);
    found.buffer.iova = port::pair(a, b);
    found.buffer.bytes = port::pair(c, d);
    port::load_quad_any(request[3][slot], a, b, c, d);
    found.buffer.prp_iova = port::pair(a, b);
    return found;
}

// The slots of this warp, in order; beyond them a number that is no slot.
template <u32 Slots> WARPBELL_D u32 io_batch<Slots>::slot_of(u32 k) const {
    if (warps_ == 1 || mutate::batch_of_others) {
        return k;
    }
    const u32 row = k / WARPBELL_WARP_LANES * warps_ + warp_;
    return row * WARPBELL_WARP_LANES + k % WARPBELL_WARP_LANES;
}

// The slot whose request the warp's command of this number belongs to: the last one that begins there or
// before, as slots without commands begin where the next one does.
template <u32 Slots> WARPBELL_D u32 io_batch<Slots>::find(u32 command) const {
    u32 low = 0, beyond = mine_;
    while (beyond - low > 1u) {
        const u32 middle = (low + beyond) / 2u;
        const bool before = port::load_relaxed_any(&shared_.first[slot_of(middle)]) <= command;
        low = before ? middle : low;
        beyond = before ? beyond : middle;
    }
    return slot_of(low);
}

// How many commands a request takes; 0 where it is refused.
template <u32 Slots>
template <sharing Mode, class Retry>
WARPBELL_D u32 io_batch<Slots>::commands_of(const session<Mode, Retry>& s, u32 slot, status& refusal) const {
    const request r = load(slot);
    if (r.op == opcode::flush) {
        return 1;
    }
    refusal = detail::check_whole(s, r.op, r.where, r.data());
    const u32 count = refusal.ok() ? (r.where.blocks - 1u) / s.max_blocks(r.op) + 1u : 0;
    if (count > most_commands) {
        refusal = code::too_large;
    }
    return refusal.ok() ? count : 0;
}

// Numbers the commands of the warp's requests through, and answers what is refused.
template <u32 Slots>
template <class Warp, sharing Mode, class Retry>
WARPBELL_D void io_batch<Slots>::number(const Warp& warp, const session<Mode, Retry>& s) {
    commands_ = mine_ = 0;
    for (u32 from = 0; slot_of(from) < Slots; from += warp.size()) {
        const u32 slot = slot_of(from + warp.thread_rank());
        u32 count = 0;
        if (slot < Slots && is_asked(slot)) {
            status refusal;
            count = commands_of(s, slot, refusal);
            if (!refusal.ok() && !mutate::batch_refusal_forgotten) {
                answer(slot, refusal.bits, 0);
                worst_ = detail::worse_of(worst_, refusal);
            }
        }
        // The sum over the lanes before this one, bit by bit: for most batches that is one.
        u32 before = 0, sum = 0;
        for (u32 bit = 0; warp.ballot(count >> bit != 0) != 0; ++bit) {
            const u32 have = warp.ballot((count >> bit & 1u) != 0);
            before += rank_in(have) << bit;
            sum += port::population(have) << bit;
        }
        if (slot < Slots) {
            port::store_relaxed_any(&shared_.first[slot], commands_ + before);
        }
        mine_ += port::population(warp.ballot(slot < Slots));
        commands_ += sum;
    }
    if (mutate::batch_one_round && commands_ > warp.size()) {
        commands_ = warp.size();
    }
    if (!mutate::batch_numbered_unseen) {
        warp.sync();
    }
}

// After it, each warp sees what all threads have added. False: the block does not consist of whole warps, and
// all requests are answered.
template <u32 Slots> template <class Group> WARPBELL_D bool io_batch<Slots>::gather(const Group& group) {
    next_ = commands_ = 0;
    worst_ = status();
    if (!mutate::batch_added_unseen) {
        group.sync();
    }
    const bool whole = detail::has_whole_warps(group);
    for (u32 slot = group.thread_rank(); !whole && slot < Slots; slot += group.size()) {
        if (is_asked(slot)) {
            answer(slot, status(code::invalid_batch).bits, 0);
        }
    }
    return whole;
}

// The command of this lane's piece, or why there is none.
template <u32 Slots>
template <class Warp, sharing Mode, class Retry>
WARPBELL_D io_token io_batch<Slots>::send(const Warp& warp, session<Mode, Retry>& s, bool want,
                                          u64 timeout_ns) const {
    status refusal;
    sqe entry = {};
    if (want) {
        const request r = load(slot_);
        if (r.op == opcode::flush) {
            entry = detail::flush_entry(s);
        } else {
            const extent part = *detail::piece(r.where, piece_, s.max_blocks(r.op));
            const u64 step_bytes = static_cast<u64>(s.max_blocks(r.op)) * s.block_bytes();
            const dma_span data =
                r.data().subspan(piece_ * step_bytes, static_cast<u64>(part.blocks) * s.block_bytes());
            refusal = s.check(r.op, part, data);
            if (refusal.ok()) {
                entry = s.entry(r.op, part, data);
                entry.dword[12] |= r.flags;
            }
        }
    }
    io_token token = s.queue().submit(warp, want && refusal.ok(), entry, timeout_ns);
    if (!refusal.ok()) {
        token = io_token::refused(refusal);
    }
    return token;
}

// The next command of each lane; `timeout_ns` 0: too late for them.
template <u32 Slots>
template <class Warp, sharing Mode, class Retry>
WARPBELL_D void io_batch<Slots>::start(const Warp& warp, session<Mode, Retry>& s, u64 timeout_ns) {
    const u32 command = next_ + warp.thread_rank();
    slot_ = nobody;
    if (command < commands_) {
        const u32 slot = find(command);
        // Answered: an earlier piece has failed.
        if (is_asked(slot) || mutate::batch_goes_on) {
            slot_ = slot;
            piece_ = command - port::load_relaxed_any(&shared_.first[slot]);
        }
    }
    if (timeout_ns != 0) {
        token_ = send(warp, s, slot_ != nobody, timeout_ns);
    } else if (slot_ != nobody) {
        token_ = io_token::refused(code::not_submitted);
    }
}

template <u32 Slots>
template <class Group, sharing Mode, class Retry>
WARPBELL_D void io_batch<Slots>::submit(const Group& who, session<Mode, Retry>& s, u64 timeout_ns) {
    const auto group = detail::block_or_warp(who);
    if (gather(group) && warp_ < warps_) {
        const auto& warp = detail::warp_of(group);
        total_ns_ = s.queue().deadline(timeout_ns);
        begin_ns_ = warp.broadcast(port::clock_ns());
        number(warp, s);
        start(warp, s, total_ns_);
    }
}

// What became of the command of each lane, which the policy may have sent again.
template <u32 Slots>
template <class Warp, sharing Mode, class Retry>
WARPBELL_D status io_batch<Slots>::finish(const Warp& warp, session<Mode, Retry>& s, u64 left_ns) {
    const status said = s.queue().wait(warp, move(token_), left_ns);
    if constexpr (Retry::enabled) {
        detail::retrying<Warp, Mode, Retry> call(warp, s, left_ns);
        return call.run(slot_ != nobody, said,
                        [&](bool want, u64 rest_ns) { return send(warp, s, want, rest_ns); });
    } else {
        return said;
    }
}

// Adds the lanes' answers to those of their requests. Pieces of a request lie in neighbouring lanes; the
// first of them writes.
template <u32 Slots>
template <class Warp, sharing Mode, class Retry>
WARPBELL_D void io_batch<Slots>::note(const Warp& warp, const session<Mode, Retry>& s, status said) {
    const bool mine = slot_ != nobody;
    const u32 same = warp.match(slot_);
    const u32 failed = warp.ballot(mine && !said.ok()) & same;
    const u32 in_use = warp.ballot(mine && said.buffer_in_use() && !mutate::batch_in_use_hidden) & same;
    const u32 hidden = mutate::batch_failure_hidden ? port::highest(same) : 0;
    const u32 from = hidden        ? hidden
                     : in_use != 0 ? port::lowest(in_use)
                     : failed != 0 ? port::lowest(failed)
                                   : port::lowest(same);
    const u32 word = static_cast<u32>(warp.from(from, said.bits));
    const u32 whole = mutate::batch_bytes_behind ? same & ~failed
                      : failed != 0              ? same & ((1u << port::lowest(failed)) - 1u)
                                                 : same;
    if (mine) {
        worst_ = detail::worse_of(worst_, said);
    }
    if (mine && port::lane() == port::lowest(same)) {
        const request r = load(slot_);
        const u64 blocks = r.where.blocks, most = s.max_blocks(r.op);
        const u64 done = (piece_ + port::population(whole)) * most;
        const bool last = (piece_ + port::population(same)) * most >= blocks;
        answer(slot_, word | (last || word != 0 ? 0 : asked),
               (done < blocks ? done : blocks) * s.block_bytes());
    }
    if (!mutate::batch_noted_unseen) {
        warp.sync();
    }
}

template <u32 Slots>
template <class Group>
WARPBELL_D status io_batch<Slots>::worst_of_all(const Group& group) const {
    if (!mutate::batch_answered_unseen) {
        group.sync();
    }
    status worst;
    for (u32 w = 0; w < warps_; ++w) {
        if (mutate::batch_failure_of_warp && w != warp_) {
            continue;
        }
        worst = detail::worse_of(worst, status::from_bits(port::load_relaxed_any(&shared_.worst[w])));
    }
    return worst;
}

template <u32 Slots>
template <class Group, sharing Mode, class Retry>
WARPBELL_D status io_batch<Slots>::wait(const Group& who, session<Mode, Retry>& s) {
    const auto group = detail::block_or_warp(who);
    if (detail::has_whole_warps(group) && warp_ < warps_) {
        const auto& warp = detail::warp_of(group);
        const auto left = [&] {
            const u64 gone = mutate::batch_deadline_of_each_round ? 0 : port::clock_ns() - begin_ns_;
            return warp.broadcast(gone < total_ns_ ? total_ns_ - gone : u64(0));
        };
        while (next_ < commands_) {
            // At least a nanosecond: 0 stands for the queue's own deadline.
            const u64 left_ns = left();
            note(warp, s, finish(warp, s, left_ns != 0 ? left_ns : 1u));
            next_ += warp.size();
            if (next_ < commands_) {
                start(warp, s, left());
            }
        }
        worst_ = detail::agree(warp, worst_);
        if (warp.is_leader()) {
            port::store_relaxed_any(&shared_.worst[warp_], worst_.bits);
        }
    }
    return wait(group);
}

template <u32 Slots> template <class Group> WARPBELL_D status io_batch<Slots>::wait(const Group& who) {
    const auto group = detail::block_or_warp(who);
    const status worst = worst_of_all(group);
    return detail::has_whole_warps(group) ? worst : status(code::invalid_batch);
}

template <u32 Slots> WARPBELL_D batch_answer io_batch<Slots>::operator[](u32 slot) const {
    batch_answer found;
    found.result = code::invalid_field;
    if (slot < Slots) {
        u32 word, unused, low, high;
        port::load_quad_any(shared_.answer[slot], word, unused, low, high);
        found.result = status::from_bits(word);
        found.bytes = port::pair(low, high);
    }
    return found;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
