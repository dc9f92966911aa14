// Bodies of stream.cuh.
#pragma once

#include "../batch.cuh"
#include "../stream.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

#define WARPBELL_STREAM(result)                                                                              \
    template <class Source, u32 Slots, u32 Stages, class Schedule>                                           \
    WARPBELL_D result tile_stream<Source, Slots, Stages, Schedule>
#define WARPBELL_STREAM_CALL(result, ...)                                                                    \
    template <class Source, u32 Slots, u32 Stages, class Schedule>                                           \
    template <__VA_ARGS__>                                                                                   \
    WARPBELL_D result tile_stream<Source, Slots, Stages, Schedule>

namespace detail {

// A copy on the chip that takes this long will never be done.
constexpr u64 copy_timeout_ns = 1000000000;

template <sharing Mode, class Retry>
template <class Warp>
WARPBELL_D io_token tile_source<session<Mode, Retry>>::start(const Warp& warp, source_type& s,
                                                             const warpbell_tile_step& step,
                                                             const dma_span& to, u64 timeout_ns, status&) {
    const u32 rank = warp.thread_rank(), most = s.max_blocks();
    const extent row{lba(step.first_block + (step.rows == 1u ? 0 : rank * step.row_stride)), step.blocks};
    optional<extent> mine;
    u32 offset = rank * step.blocks;
    if (step.rows == 1u) {
        status refusal = check_whole(s, opcode::read, row, to);
        if (refusal.ok() && step.blocks > static_cast<u64>(most) * warp.size()) {
            refusal = code::too_large;
        }
        if (!refusal.ok()) {
            return io_token::refused(refusal);
        }
        mine = piece(row, rank, most);
        offset = rank * most;
    } else if (rank < step.rows) {
        mine = row;
    }
    const u64 bytes = mine ? static_cast<u64>(mine->blocks) * s.block_bytes() : 0;
    const dma_span part = to.subspan(static_cast<u64>(offset) * s.block_bytes(), bytes);
    return start_each(warp, s, opcode::read, mine, part, timeout_ns);
}

template <sharing Mode, class Retry>
template <class Warp>
WARPBELL_D bool tile_source<session<Mode, Retry>>::poll(const Warp& warp, source_type& s, io_token& token,
                                                        status& said) {
    if (!token.in_flight()) {
        return true;
    }
    const optional<status> found = s.queue().try_wait(warp, token);
    said = found ? *found : said;
    return found.has_value();
}

template <sharing Mode, u32 Members, class Map, class Retry>
template <class Warp>
WARPBELL_D io_token tile_source<volume<Mode, Members, Map, Retry>>::start(const Warp& warp, source_type& v,
                                                                          const warpbell_tile_step& step,
                                                                          const volume_span& to,
                                                                          u64 timeout_ns, status& said) {
    const bool whole = step.rows == 1u;
    const u32 row = whole ? 0 : warp.thread_rank();
    const u64 bytes = static_cast<u64>(step.blocks) * v.block_bytes();
    optional<extent> mine;
    if (row < step.rows) {
        mine = extent{lba(step.first_block + row * step.row_stride), step.blocks};
    }
    said = v.run(warp, opcode::read, mine, to.subspan(row * bytes, bytes), whole, timeout_ns);
    return io_token();
}

} // namespace detail

WARPBELL_STREAM_CALL(, class Group)::tile_stream(const Group& who, const Schedule& schedule, Source& source,
                                                 const span_type& ring, void* shared)
    : schedule_(schedule), source_(source), ring_(ring), shared_(*static_cast<storage*>(shared)) {
    const auto group = detail::block_or_warp(who);
    if (group.thread_rank() == 0) {
        WARPBELL_NO_UNROLL
        for (u32 i = 0; i < Stages; ++i) {
            port::copy_init(&shared_.barriers[i], group.size());
        }
        WARPBELL_NO_UNROLL
        for (u32 i = 0; i < Slots; ++i) {
            port::store_relaxed_any(&shared_.results[i],
                                    status(code::invalid_field).bits); // nothing is there
        }
        port::store_relaxed_any(&shared_.loaded, 0);
        port::store_relaxed_any(&shared_.late, 0);
    }
    group.sync();
}

// ---- producing

WARPBELL_STREAM(status)::check(const warpbell_tile_step& step) const {
    const span_type to = slot(step.slot);
    if (step.rows == 0 || step.rows > WARPBELL_WARP_LANES || step.blocks == 0 || step.slot >= Slots) {
        return code::invalid_field;
    }
    if (bytes_of(step) > schedule_.slot_bytes() && !mutate::stream_tile_unchecked) {
        return code::too_large;
    }
    if (!to.inside() || (step.slot + 1ull) * schedule_.slot_bytes() > ring_.bytes()) {
        return code::out_of_buffer;
    }
    const bool aligned = (reinterpret_cast<u64>(to.template data<u8>()) & 15u) == 0;
    return aligned && schedule_.slot_bytes() % 16u == 0 ? status() : status(code::misaligned);
}

// Of a step whose load has its answer: its tile is in its slot, or why it is not.
WARPBELL_STREAM(status)::in_ring(const warpbell_tile_step& step) const {
    if (step.slot >= Slots) {
        return code::invalid_field;
    }
    // A load was checked when it was committed.
    const status loaded = result_of(step.slot);
    return loaded.ok() && is_resident(step) && !mutate::stream_resident_unchecked ? check(step) : loaded;
}

// A slot that an SSD may still write to stays as it is, whatever the step is.
WARPBELL_STREAM_CALL(void, class Warp)::start(const Warp& warp, const warpbell_tile_step& step,
                                              u64 timeout_ns) {
    if (step.slot < Slots) {
        status said = result_of(step.slot);
        if (!said.buffer_in_use() || mutate::stream_slot_in_use_taken) {
            said = check(step);
        }
        io_token token;
        if (said.ok()) {
            while (!mutate::stream_starved && settled_ + 1u < committed_ &&
                   warp.ballot(backing::starved(source_)) != 0) {
                settle(warp, timeout_ns);
            }
            token = backing::start(warp, source_, step, slot(step.slot), timeout_ns, said);
        }
        shared_.tokens[step.slot][port::lane()] = token.bits();
        shared_.said[step.slot][port::lane()] = said.bits;
    }
}

WARPBELL_STREAM_CALL(status, class Group)::producer_acquire(const Group&) {
    if (acquired_ != committed_) {
        return status();
    }
    if (committed_ >= schedule_.steps()) {
        return code::out_of_range;
    }
    if (step(committed_).after > released_ && !mutate::stream_slot_overwritten) {
        return code::no_room;
    }
    ++acquired_;
    return status();
}

WARPBELL_STREAM_CALL(status, class Group)::producer_commit(const Group& who, u64 timeout_ns) {
    const auto group = detail::block_or_warp(who);
    if (acquired_ == committed_) {
        return code::invalid_field;
    }
    const warpbell_tile_step next = step(committed_++);
    if (!is_resident(next)) {
        ++loads_;
        if (detail::warp_rank_of(group) == 0) {
            start(detail::warp_of(group), next, timeout_ns);
        }
    }
    return status();
}

// ---- loads

WARPBELL_STREAM_CALL(bool, class Warp)::poll(const Warp& warp, u32 slot) {
    io_token token = io_token::from_bits(shared_.tokens[slot][port::lane()]);
    status said = status::from_bits(shared_.said[slot][port::lane()]);
    const bool done = backing::poll(warp, source_, token, said);
    shared_.tokens[slot][port::lane()] = token.bits();
    shared_.said[slot][port::lane()] = said.bits;
    return warp.ballot(!done) == 0;
}

// The load's answer: one for all lanes, which all may read what each of them was told of.
WARPBELL_STREAM_CALL(void, class Warp)::finish(const Warp& warp, u32 slot, u64 timeout_ns) {
    io_token token = io_token::from_bits(shared_.tokens[slot][port::lane()]);
    const u64 wait_ns = mutate::stream_waits_for_ever ? ~0ull >> 2 : timeout_ns;
    const status last = backing::finish(warp, source_, move(token), wait_ns);
    const status mine = last.ok() ? status::from_bits(shared_.said[slot][port::lane()]) : last;
    const status all = detail::agree_on_data(warp, mine);
    if (warp.is_leader()) {
        port::store_relaxed_any(&shared_.results[slot], (mutate::stream_failure_of_lane ? mine : all).bits);
    }
}

// The load of the next step that has none, where the step has a load.
WARPBELL_STREAM_CALL(void, class Warp)::settle(const Warp& warp, u64 timeout_ns) {
    const warpbell_tile_step next = step(settled_++);
    if (!is_resident(next) && next.slot < Slots) {
        finish(warp, next.slot, timeout_ns);
    }
}

// Steps up to `end` have their answers afterwards, and as many behind them as are done. In every thread.
WARPBELL_STREAM_CALL(void, class Group)::take_loads(const Group& group, u32 end, u64 timeout_ns) {
    if (detail::warp_rank_of(group) == 0) {
        const auto& warp = detail::warp_of(group);
        WARPBELL_NO_UNROLL
        while (settled_ < committed_) {
            const warpbell_tile_step found = step(settled_);
            const bool loads = !is_resident(found) && found.slot < Slots;
            if (settled_ >= end && loads && !poll(warp, found.slot)) {
                break;
            }
            settle(warp, timeout_ns);
        }
        if (warp.is_leader()) {
            port::store_relaxed_any(&shared_.loaded, settled_);
        }
    }
    group.sync();
    loaded_ = port::load_relaxed_any(&shared_.loaded);
}

// ---- copies

// Of tiles that are in the ring, as far as there are stages for them.
WARPBELL_STREAM_CALL(void, class Group)::begin_copies(const Group& group) {
    const u32 room = mutate::stream_stage_overwritten ? committed_ : released_ + Stages;
    WARPBELL_NO_UNROLL
    for (; copied_ < loaded_ && copied_ < room; ++copied_) {
        const warpbell_tile_step found = step(copied_);
        if (!in_ring(found).ok()) {
            continue;
        }
        const u32 from = mutate::stream_slot_of_next ? (found.slot + 1u) % Slots : found.slot;
        port::copy_barrier* barrier = &shared_.barriers[copied_ % Stages];
        if (group.thread_rank() == 0 && !mutate::stream_copy_unordered) {
            port::copy_order(barrier);
        }
        port::copy_begin(barrier, group.thread_rank(), group.size(), stage(copied_),
                         slot(from).template data<u8>(), static_cast<u32>(bytes_of(found)));
        begun_ |= 1u << copied_ % Stages;
    }
}

// Where one was begun. All threads are here afterwards, and say the same.
WARPBELL_STREAM_CALL(status, class Group)::await_copy(const Group& group, u32 stage) {
    const u32 bit = 1u << stage;
    const u64 begin = port::clock_ns();
    if ((begun_ & bit) != 0 && !mutate::stream_copy_unawaited) {
        const u32 parity = mutate::stream_phase_stuck ? 0 : parity_ >> stage & 1u;
        // The clock comes before the poll: a thread that was stopped in between is not late.
        bool over = false;
        while (!port::copy_is_done(&shared_.barriers[stage], group.thread_rank(), parity)) {
            if (over) {
                port::store_relaxed_any(&shared_.late, 1);
                break;
            }
            over = port::clock_ns() - begin > detail::copy_timeout_ns;
            port::pause();
        }
        parity_ ^= bit;
    }
    begun_ &= ~bit;
    group.sync();
    return port::load_relaxed_any(&shared_.late) != 0 ? status(code::timed_out) : status();
}

// ---- consuming

WARPBELL_STREAM_CALL(stream_tile, class Group)::consumer_wait(const Group& who, u64 timeout_ns) {
    const auto group = detail::block_or_warp(who);
    if (waited_ == committed_ || waited_ == released_ + Stages) {
        const status why = waited_ == committed_ ? code::invalid_field : code::no_room;
        return stream_tile(warpbell_tile_step(), nullptr, 0, why);
    }
    take_loads(group, waited_ + 1u, timeout_ns);
    begin_copies(group);
    const u32 at = waited_++;
    const warpbell_tile_step found = step(at);
    status result = in_ring(found);
    const status copied = await_copy(group, at % Stages);
    result = result.ok() ? copied : result;
    result = mutate::stream_failure_hidden ? status() : result;
    return stream_tile(found, stage(at), static_cast<u32>(bytes_of(found)), result);
}

WARPBELL_STREAM_CALL(status, class Group)::consumer_release(const Group&) {
    if (released_ == waited_) {
        return code::invalid_field;
    }
    // The threads meet at the next wait, before anything is copied over this tile.
    ++released_;
    return status();
}

WARPBELL_STREAM_CALL(status, class Group, class Use)::for_each(const Group& who, Use use, u64 timeout_ns) {
    const auto group = detail::block_or_warp(who);
    status worst;
    WARPBELL_NO_UNROLL
    while (released_ < schedule_.steps()) {
        while (producer_acquire(group).ok()) {
            (void)producer_commit(group, timeout_ns);
        }
        const stream_tile tile = consumer_wait(group, timeout_ns);
        if (tile.result().is(code::invalid_field) && waited_ == released_) {
            return tile.result(); // a schedule that nothing can follow
        }
        use(tile);
        worst = tile.result().ok() ? worst : detail::worse_of(worst, tile.result());
        (void)consumer_release(group);
    }
    return worst;
}

WARPBELL_STREAM_CALL(status, class Group)::detach(const Group& who, u64 timeout_ns) {
    const auto group = detail::block_or_warp(who);
    take_loads(group, committed_, timeout_ns);
    status worst;
    WARPBELL_NO_UNROLL
    for (u32 at = waited_; at < committed_; ++at) {
        worst = detail::worse_of(worst, in_ring(step(at)));
    }
    WARPBELL_NO_UNROLL
    for (; waited_ < copied_; ++waited_) {
        (void)await_copy(group, waited_ % Stages);
    }
    group.sync();
    if (group.thread_rank() == 0) {
        WARPBELL_NO_UNROLL
        for (u32 i = 0; i < Stages; ++i) {
            port::copy_close(&shared_.barriers[i]);
        }
    }
    return mutate::stream_left_unreported ? status() : worst;
}

#undef WARPBELL_STREAM_CALL
#undef WARPBELL_STREAM

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
