// Bodies of io.cuh.
#pragma once

#include "../io.cuh"
#include "pieces.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// ---- commands

// PRP list entries of a transfer: pages after the first, where there are more than two.
template <sharing Mode, class Retry>
WARPBELL_D u32 session<Mode, Retry>::list_entries(u64 iova, u64 bytes) const {
    const u64 page = 1ull << ns_->page_shift;
    const u64 pages = ((iova & (page - 1u)) + bytes + page - 1u) >> ns_->page_shift;
    return pages > 2 ? static_cast<u32>(pages - 1u) : 0;
}

template <sharing Mode, class Retry>
WARPBELL_D status session<Mode, Retry>::check_blocks(opcode op, extent where) const {
    if (!has(op)) {
        return status::invalid_opcode();
    }
    if (where.blocks == 0) {
        return code::invalid_field;
    }
    if (!mutate::lba_unchecked &&
        (where.blocks > ns_->blocks || where.start.value > ns_->blocks - where.blocks)) {
        return code::out_of_range;
    }
    if (detail::changes_medium(op) && (ns_->flags & WARPBELL_NAMESPACE_READ_ONLY) != 0 &&
        !mutate::lease_unchecked) {
        return code::read_only;
    }
    // Within the namespace, so that no sum overflows.
    if ((where.start.value < ns_->lease_first || where.start.value + where.blocks > ns_->lease_end) &&
        !mutate::lease_unchecked) {
        return code::out_of_lease;
    }
    return status();
}

template <sharing Mode, class Retry>
WARPBELL_D bool session<Mode, Retry>::is_leased(u64 iova, u64 bytes) const {
    return mutate::lease_unchecked || (iova >= ns_->lease_iova && iova + bytes <= ns_->lease_iova_end);
}

template <sharing Mode, class Retry>
WARPBELL_D status session<Mode, Retry>::check(opcode op, extent where, const dma_span& data) const {
    const u64 bytes = static_cast<u64>(where.blocks) << ns_->block_shift;
    const status refusal = check_blocks(op, where);
    if (!refusal.ok()) {
        return refusal;
    }
    if (where.blocks > max_blocks(op) && !mutate::too_large_sent) {
        return code::too_large;
    }
    return detail::carries_blocks(op) ? check_data(data, bytes) : status();
}

template <sharing Mode, class Retry>
WARPBELL_D status session<Mode, Retry>::check_data(const dma_span& data, u64 bytes) const {
    if ((!data.inside() || data.bytes() < bytes) && !mutate::data_unchecked) {
        return code::out_of_buffer;
    }
    if (!is_leased(data.iova(), bytes)) {
        return code::out_of_lease;
    }
    if ((data.iova() & 3u) != 0 && !mutate::misaligned_sent) {
        return code::misaligned;
    }
    if (!uses_sgl()) {
        const u32 entries = list_entries(data.iova(), bytes);
        if (entries > WARPBELL_PRP_LIST_MAX) {
            return code::too_large;
        }
        if (entries != 0 && data.buffer().prp_iova == 0) {
            return code::invalid_field;
        }
    }
    return status();
}

template <sharing Mode, class Retry>
WARPBELL_D status session<Mode, Retry>::check_ranges(u32 ranges, u32 longest, u64 blocks) const {
    if (queue_.refuses() || mutate::ranges_unchecked) {
        return status();
    }
    const auto& most = *reinterpret_cast<const warpbell_queue_state*>(queue_.ref().state);
    const auto is_beyond = [](u64 value, u64 limit) { return limit != 0 && value > limit; };
    const bool too_large = is_beyond(ranges, most.deallocate_ranges) ||
                           is_beyond(longest, most.deallocate_range_blocks) ||
                           is_beyond(blocks, most.deallocate_blocks);
    return too_large ? status(code::too_large) : status();
}

// Data by SGL or PRP (NVMe Base 2.0, 4.1).
template <sharing Mode, class Retry>
WARPBELL_D sqe session<Mode, Retry>::entry(opcode op, const dma_span& data, u64 bytes) const {
    const u64 iova = data.iova();
    u64 second = 0;
    u32 flags = 0;
    if (uses_sgl()) {
        flags = 1u << 14; // PSDT: the data pointer is one SGL descriptor, here a data block (type 0)
        second = bytes;
    } else {
        const u64 page_mask = (1ull << ns_->page_shift) - 1u;
        const u64 end = (iova & page_mask) + bytes;
        if (list_entries(iova, bytes) != 0) {
            const u64 first = (iova >> ns_->page_shift) - (data.buffer().iova >> ns_->page_shift);
            const u64 listed = first + (mutate::prp_list_off_by_one ? 0u : 1u);
            second = data.buffer().prp_iova + (listed >> 8) * WARPBELL_PRP_TABLE_PAGE + (listed & 255u) * 8u;
        } else if (end > page_mask + 1u && !mutate::prp2_second_page_lost) {
            second = (iova & ~page_mask) + page_mask + 1u;
        }
    }
    sqe e = {};
    e.dword[0] = static_cast<u32>(op) | flags;
    e.dword[1] = ns_->nsid;
    e.dword[6] = static_cast<u32>(iova);
    e.dword[7] = static_cast<u32>(iova >> 32);
    e.dword[8] = static_cast<u32>(second);
    e.dword[9] = static_cast<u32>(second >> 32);
    return e;
}

// Read, Write, Compare and Write Zeroes have their blocks in the same place (NVM Command Set 1.0, 3.2).
template <sharing Mode, class Retry>
WARPBELL_D sqe session<Mode, Retry>::entry(opcode op, extent where, const dma_span& data) const {
    sqe e = {};
    if (detail::carries_blocks(op)) {
        e = entry(op, data, static_cast<u64>(where.blocks) << ns_->block_shift);
    } else {
        e.dword[0] = static_cast<u32>(op);
        e.dword[1] = ns_->nsid;
    }
    e.dword[10] = static_cast<u32>(where.start.value);
    e.dword[11] = static_cast<u32>(where.start.value >> 32);
    e.dword[12] = op == opcode::flush ? 0 : where.blocks - 1u;
    return e;
}

namespace detail {

template <sharing Mode, class Retry> WARPBELL_D sqe flush_entry(const session<Mode, Retry>& s) {
    sqe entry = {};
    entry.dword[0] = static_cast<u32>(opcode::flush);
    entry.dword[1] = s.nsid();
    return entry;
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token start_each(const Group& group, session<Mode, Retry>& s, opcode op, optional<extent> where,
                               const dma_span& data, u64 timeout_ns, u32 flags = 0) {
    const status checked = where ? s.check(op, *where, data) : status();
    const status refusal = is_taken(op, flags) || !where ? checked : status(code::invalid_field);
    const bool want = where.has_value() && refusal.ok();
    sqe entry = {};
    if (want) {
        entry = s.entry(op, *where, data);
        entry.dword[12] |= flags;
    }
    io_token token = s.queue().submit(group, want, entry, timeout_ns);
    if (!refusal.ok() && !mutate::refusal_forgotten) {
        token = io_token::refused(refusal);
    }
    return token;
}

// At most `most` blocks of an extent, from block `from` of it on, which it has.
WARPBELL_D extent part_of(extent whole, u32 from, u32 most) {
    const u32 rest = whole.blocks - from;
    return extent{lba(whole.start.value + from), rest < most && !mutate::piece_not_clipped ? rest : most};
}

// Part `index` of an extent that is moved in pieces of at most `most` blocks; nullopt behind its end.
WARPBELL_D optional<extent> piece(extent whole, u64 index, u32 most) {
    const u64 before = index * most;
    return before < whole.blocks ? optional<extent>(part_of(whole, static_cast<u32>(before), most)) : nullopt;
}

// Refusals that splitting would hide: a piece of a bad extent can be good.
template <sharing Mode, class Retry>
WARPBELL_D status check_whole(const session<Mode, Retry>& s, opcode op, extent whole, const dma_span& data,
                              u32 flags = 0) {
    const u64 bytes = static_cast<u64>(whole.blocks) * s.block_bytes();
    const status refusal = is_taken(op, flags) ? s.check_blocks(op, whole) : status(code::invalid_field);
    if (!refusal.ok()) {
        return refusal;
    }
    if (carries_blocks(op) && (!data.inside() || data.bytes() < bytes) && !mutate::whole_unchecked) {
        return code::out_of_buffer;
    }
    return status();
}

// The group's result, in every lane: a failure that leaves its buffer to the controller before any other,
// so that nobody reuses memory that may still be written; else the first failure.
template <class Group> WARPBELL_D status agree(const Group& group, status mine) {
    const u32 failed = group.ballot(!mine.ok());
    if (failed == 0) {
        return status();
    }
    if (mutate::group_failure_hidden) {
        return mine;
    }
    const u32 in_use = mutate::in_use_hidden ? 0 : group.ballot(mine.buffer_in_use());
    return status::from_bits(group.from(port::lowest(in_use ? in_use : failed), static_cast<u32>(mine.bits)));
}

// The same after commands that moved data: each lane saw the completion of its own, and all may read the data
// of all. Ballots and shuffles order no memory.
template <class Group> WARPBELL_D status agree_on_data(const Group& group, status mine) {
    group.sync();
    return agree(group, mine);
}

// One command for the group; its answer in every lane.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_one(const Group& group, session<Mode, Retry>& s, const sqe& entry, u64 timeout_ns) {
    const auto make = [entry](session<Mode, Retry>&, u32, status&) { return entry; };
    const lane_pieces mine = {0, group.is_leader() ? 1u : 0u, 1, false};
    return agree(group, run_pieces(group, s, mine, make, timeout_ns).result);
}

// The answer of a command of the group: a flush is sent by `flush`, all others by `of_blocks`.
template <class Span, class Flush, class Blocks>
WARPBELL_D status run_either(const basic_command<Span>& what, const Flush& flush, const Blocks& of_blocks) {
    if (!what.where) {
        return status();
    }
    if (what.op != opcode::flush) {
        return of_blocks();
    }
    return fits_flags(what.op, what.flags) ? flush() : status(code::invalid_field);
}

// One deadline for all rounds of a call. The clock is read only for a call of several rounds.
class rounds_deadline {
  public:
    WARPBELL_D rounds_deadline(u64 total_ns, bool several)
        : total_ns_(total_ns), begin_ns_(several ? port::clock_ns() : 0) {}

    // What is left for the next round, the same in each lane; 0 once nothing is.
    template <class Group> WARPBELL_D u64 left(const Group& group) const {
        const u64 gone = mutate::deadline_of_each_round ? 0 : port::clock_ns() - begin_ns_;
        return group.broadcast(gone < total_ns_ ? total_ns_ - gone : 0);
    }

  private:
    u64 total_ns_;
    u64 begin_ns_;
};

// Blocks of one I/O: those from `first` on, and behind each piece `step` further. `flags`: of dword 12.
template <class Group, sharing Mode, class Retry>
WARPBELL_D lane_answer run_blocks(const Group& group, session<Mode, Retry>& s, opcode op, extent where,
                                  const dma_span& data, const lane_pieces& mine, u64 timeout_ns, u32 flags) {
    const auto make = [op, where, data, flags](session<Mode, Retry>& s, u32 from, status& refusal) {
        const extent part = part_of(where, from, s.max_blocks(op));
        const dma_span its = data.subspan(static_cast<u64>(from) * s.block_bytes(),
                                          static_cast<u64>(part.blocks) * s.block_bytes());
        // The blocks are of a whole that was checked; the rest depends on where the piece's data lies.
        refusal = carries_blocks(op) ? s.check_data(its, its.bytes()) : status();
        sqe entry = {};
        if (refusal.ok()) {
            entry = s.entry(op, part, its);
            entry.dword[12] |= flags;
        }
        return entry;
    };
    return run_pieces(group, s, mine, make, timeout_ns);
}

// One I/O for the group: its pieces go to the lanes in turn.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_whole(const Group& group, session<Mode, Retry>& s, opcode op, extent where,
                            const dma_span& data, u64 timeout_ns, u32 flags = 0) {
    const status refusal = check_whole(s, op, where, data, flags);
    if (!refusal.ok()) {
        return refusal;
    }
    const u32 first = group.thread_rank() * s.max_blocks(op);
    const lane_pieces mine = {first, where.blocks, group.size() * s.max_blocks(op), true};
    const lane_answer answer = run_blocks(group, s, op, where, data, mine, timeout_ns, flags);
    group.sync(); // as agree_on_data has it
    return agree(group, answer);
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token start_whole(const Group& group, session<Mode, Retry>& s, opcode op, extent where,
                                const dma_span& data, u64 timeout_ns, u32 flags = 0) {
    status refusal = check_whole(s, op, where, data, flags);
    if (refusal.ok() && where.blocks > static_cast<u64>(s.max_blocks(op)) * group.size()) {
        refusal = code::too_large;
    }
    if (!refusal.ok()) {
        return io_token::refused(refusal);
    }
    const u32 index = group.thread_rank();
    const optional<extent> mine = piece(where, index, s.max_blocks(op));
    const u64 bytes = mine ? static_cast<u64>(mine->blocks) * s.block_bytes() : 0;
    const u64 step_bytes = static_cast<u64>(s.max_blocks(op)) * s.block_bytes();
    return start_each(group, s, op, mine, data.subspan(index * step_bytes, bytes), timeout_ns, flags);
}

// One I/O per lane: pieces of a lane's I/O follow each other.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_each(const Group& group, session<Mode, Retry>& s, opcode op, optional<extent> where,
                           const dma_span& data, u64 timeout_ns, u32 flags = 0) {
    const status refusal = where ? check_whole(s, op, *where, data, flags) : status();
    // Field by field: a copy of the whole has its padding, too, where it lies in memory.
    const extent all = {where ? where->start : lba(), where ? where->blocks : 0u};
    const lane_pieces mine = {0, refusal.ok() ? all.blocks : 0u, s.max_blocks(op), false};
    const status result = run_blocks(group, s, op, all, data, mine, timeout_ns, flags).result;
    return refusal.ok() ? result : refusal;
}

} // namespace detail

// ---- the calls

template <class Group, sharing Mode, class Retry>
WARPBELL_D status run(const Group& who, session<Mode, Retry>& s, const command& what, u64 timeout_ns) {
    const auto group = group_of(who);
    const auto flush = [&] { return detail::run_one(group, s, detail::flush_entry(s), timeout_ns); };
    return detail::run_either(what, flush, [&] {
        return detail::run_whole(group, s, what.op, *what.where, what.data, timeout_ns, what.flags);
    });
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token submit(const Group& who, session<Mode, Retry>& s, const command& what, u64 timeout_ns) {
    const auto group = group_of(who);
    if (!what.where) {
        return io_token();
    }
    if (what.op != opcode::flush) {
        return detail::start_whole(group, s, what.op, *what.where, what.data, timeout_ns, what.flags);
    }
    return detail::fits_flags(what.op, what.flags)
               ? s.queue().submit(group, group.is_leader(), detail::flush_entry(s), timeout_ns)
               : io_token::refused(code::invalid_field);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait(const Group& who, session<Mode, Retry>& s, io_token&& token, u64 timeout_ns) {
    const auto group = group_of(who);
    return detail::agree_on_data(group, s.queue().wait(group, move(token), timeout_ns));
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_each(const Group& group, session<Mode, Retry>& s, const command& mine, u64 timeout_ns) {
    return detail::run_each(group_of(group), s, mine.op, mine.where, mine.data, timeout_ns, mine.flags);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token submit_each(const Group& group, session<Mode, Retry>& s, const command& mine,
                                u64 timeout_ns) {
    return detail::start_each(group_of(group), s, mine.op, mine.where, mine.data, timeout_ns, mine.flags);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait_each(const Group& group, session<Mode, Retry>& s, io_token&& token, u64 timeout_ns) {
    return s.queue().wait(group_of(group), move(token), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D optional<status> try_wait(const Group& who, session<Mode, Retry>& s, io_token& token) {
    const auto group = group_of(who);
    (void)s.queue().reap(group);
    return s.queue().try_wait(group, token);
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                       u64 timeout_ns) {
    return run(group, s, command::read(from, to), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                        u64 timeout_ns) {
    return run(group, s, command::write(to, from), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status flush(const Group& group, session<Mode, Retry>& s, u64 timeout_ns) {
    return run(group, s, command::flush(), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                            const dma_span& to, u64 timeout_ns) {
    return run_each(group, s, command::read(from, to), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_each(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                             const dma_span& from, u64 timeout_ns) {
    return run_each(group, s, command::write(to, from), timeout_ns);
}

template <sharing Mode, class Retry>
WARPBELL_D status run(session<Mode, Retry>& s, const command& what, u64 timeout_ns) {
    return run(this_thread(), s, what, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token submit(session<Mode, Retry>& s, const command& what, u64 timeout_ns) {
    return submit(this_thread(), s, what, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status wait(session<Mode, Retry>& s, io_token&& token, u64 timeout_ns) {
    return wait(this_thread(), s, move(token), timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status read(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns) {
    return read(this_thread(), s, from, to, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status write(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns) {
    return write(this_thread(), s, to, from, timeout_ns);
}
template <sharing Mode, class Retry> WARPBELL_D status flush(session<Mode, Retry>& s, u64 timeout_ns) {
    return flush(this_thread(), s, timeout_ns);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
