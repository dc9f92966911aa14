// Bodies of commands.cuh.
#pragma once

#include "../commands.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare(const Group& group, session<Mode, Retry>& s, extent where, const dma_span& with,
                          u64 timeout_ns) {
    return detail::run_whole(group, s, opcode::compare, where, with, timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                               const dma_span& with, u64 timeout_ns) {
    return detail::run_each(group, s, opcode::compare, where, with, timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token compare_async(const Group& group, session<Mode, Retry>& s, extent where,
                                  const dma_span& with, u64 timeout_ns) {
    return detail::start_whole(group, s, opcode::compare, where, with, timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token compare_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                       const dma_span& with, u64 timeout_ns) {
    return detail::start_each(group, s, opcode::compare, where, with, timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes(const Group& group, session<Mode, Retry>& s, extent where, u64 timeout_ns) {
    return detail::run_whole(group, s, opcode::write_zeroes, where, dma_span(), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                    u64 timeout_ns) {
    return detail::run_each(group, s, opcode::write_zeroes, where, dma_span(), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_async(const Group& group, session<Mode, Retry>& s, extent where,
                                       u64 timeout_ns) {
    return detail::start_whole(group, s, opcode::write_zeroes, where, dma_span(), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_each_async(const Group& group, session<Mode, Retry>& s,
                                            optional<extent> where, u64 timeout_ns) {
    return detail::start_each(group, s, opcode::write_zeroes, where, dma_span(), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                           u64 timeout_ns) {
    return detail::run_whole(group, s, opcode::read, from, to, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                const dma_span& to, u64 timeout_ns) {
    return detail::run_each(group, s, opcode::read, from, to, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_fua_async(const Group& group, session<Mode, Retry>& s, extent from,
                                   const dma_span& to, u64 timeout_ns) {
    return detail::start_whole(group, s, opcode::read, from, to, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_fua_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                        const dma_span& to, u64 timeout_ns) {
    return detail::start_each(group, s, opcode::read, from, to, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                            u64 timeout_ns) {
    return detail::run_whole(group, s, opcode::write, to, from, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                 const dma_span& from, u64 timeout_ns) {
    return detail::run_each(group, s, opcode::write, to, from, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_fua_async(const Group& group, session<Mode, Retry>& s, extent to,
                                    const dma_span& from, u64 timeout_ns) {
    return detail::start_whole(group, s, opcode::write, to, from, timeout_ns, force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_fua_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                         const dma_span& from, u64 timeout_ns) {
    return detail::start_each(group, s, opcode::write, to, from, timeout_ns, force_unit_access);
}

namespace detail {

constexpr u32 attribute_deallocate = 1u << 2; // dword 11 of Dataset Management
constexpr u32 range_bytes = 16;

// Why no command with these extents is sent: the same in each lane. `ranges`: lanes with an extent.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status check_ranges(const Group& group, const session<Mode, Retry>& s, optional<extent> mine,
                               const dma_span& list, u32 ranges) {
    const u64 bytes = static_cast<u64>(port::population(ranges)) * range_bytes;
    status refusal = s.check_data(list, bytes);
    if (refusal.ok() && (reinterpret_cast<u64>(list.template data<u8>()) & (range_bytes - 1u)) != 0) {
        refusal = code::misaligned;
    }
    if (refusal.ok() && mine) {
        refusal = s.check_blocks(opcode::dataset_management, *mine);
    }
    return agree(group, refusal);
}

// Puts them into the list; the entry of the command.
// Range definition: context attributes, length in blocks, first block (NVM Command Set 1.0, 3.2.3).
template <sharing Mode, class Retry>
WARPBELL_D sqe list_ranges(const session<Mode, Retry>& s, optional<extent> mine, const dma_span& list,
                           u32 ranges) {
    if (mine) {
        const u64 first = mine->start.value;
        const u32 place = mutate::range_by_lane ? port::lane() : rank_in(ranges);
        port::store_quad(list.template data<u32>() + place * 4u, 0, mine->blocks, static_cast<u32>(first),
                         static_cast<u32>(first >> 32));
    }
    const u32 count = port::population(ranges);
    sqe entry = s.command(opcode::dataset_management, list, static_cast<u64>(count) * range_bytes);
    entry.dword[10] = count - 1u;
    entry.dword[11] = attribute_deallocate;
    return entry;
}

} // namespace detail

// The entries of the list come before the doorbell as the submission entry does: a sync, then F1.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status deallocate(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                             const dma_span& list, u64 timeout_ns) {
    const u32 ranges = group.ballot(mine.has_value());
    if (ranges == 0) {
        return status();
    }
    const status refusal = detail::check_ranges(group, s, mine, list, ranges);
    if (!refusal.ok()) {
        return refusal;
    }
    return detail::run_one(group, s, detail::list_ranges(s, mine, list, ranges), timeout_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token deallocate_async(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                                     const dma_span& list, u64 timeout_ns) {
    const u32 ranges = group.ballot(mine.has_value());
    if (ranges == 0) {
        return io_token();
    }
    const status refusal = detail::check_ranges(group, s, mine, list, ranges);
    if (!refusal.ok()) {
        return io_token::refused(refusal);
    }
    return s.queue().submit(group, group.is_leader(), detail::list_ranges(s, mine, list, ranges), timeout_ns);
}

template <sharing Mode, class Retry>
WARPBELL_D status compare(session<Mode, Retry>& s, extent where, const dma_span& with, u64 timeout_ns) {
    return compare(this_thread(), s, where, with, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status write_zeroes(session<Mode, Retry>& s, extent where, u64 timeout_ns) {
    return write_zeroes(this_thread(), s, where, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status read_fua(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns) {
    return read_fua(this_thread(), s, from, to, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status write_fua(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns) {
    return write_fua(this_thread(), s, to, from, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D status deallocate(session<Mode, Retry>& s, extent mine, const dma_span& list, u64 timeout_ns) {
    return deallocate(this_thread(), s, optional<extent>(mine), list, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token compare_async(session<Mode, Retry>& s, extent where, const dma_span& with,
                                  u64 timeout_ns) {
    return compare_async(this_thread(), s, where, with, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_async(session<Mode, Retry>& s, extent where, u64 timeout_ns) {
    return write_zeroes_async(this_thread(), s, where, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token read_fua_async(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns) {
    return read_fua_async(this_thread(), s, from, to, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token write_fua_async(session<Mode, Retry>& s, extent to, const dma_span& from,
                                    u64 timeout_ns) {
    return write_fua_async(this_thread(), s, to, from, timeout_ns);
}
template <sharing Mode, class Retry>
WARPBELL_D io_token deallocate_async(session<Mode, Retry>& s, extent mine, const dma_span& list,
                                     u64 timeout_ns) {
    return deallocate_async(this_thread(), s, optional<extent>(mine), list, timeout_ns);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
