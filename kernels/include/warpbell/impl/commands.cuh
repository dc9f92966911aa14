// Bodies of commands.cuh.
#pragma once

#include "../commands.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {
constexpr u32 force_unit_access = mutate::fua_forgotten ? 0 : 1u << 30; // dword 12 of Read and Write
constexpr u32 attribute_deallocate = 1u << 2;                           // dword 11 of Dataset Management
constexpr u32 range_bytes = 16;
} // namespace detail

template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare(const Group& group, session<Mode, Retry>& s, extent where, const dma_span& data,
                          u64 deadline_ns) {
    return detail::run_whole(group, s, opcode::compare, where, data, deadline_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                               const dma_span& data, u64 deadline_ns) {
    return detail::run_each(group, s, opcode::compare, where, data, deadline_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua(const Group& group, session<Mode, Retry>& s, extent where, const dma_span& data,
                           u64 deadline_ns) {
    return detail::run_whole(group, s, opcode::read, where, data, deadline_ns, detail::force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                const dma_span& data, u64 deadline_ns) {
    return detail::run_each(group, s, opcode::read, where, data, deadline_ns, detail::force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua(const Group& group, session<Mode, Retry>& s, extent where, const dma_span& data,
                            u64 deadline_ns) {
    return detail::run_whole(group, s, opcode::write, where, data, deadline_ns, detail::force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                 const dma_span& data, u64 deadline_ns) {
    return detail::run_each(group, s, opcode::write, where, data, deadline_ns, detail::force_unit_access);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes(const Group& group, session<Mode, Retry>& s, extent where, u64 deadline_ns) {
    return detail::run_whole(group, s, opcode::write_zeroes, where, dma_span(), deadline_ns);
}
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                    u64 deadline_ns) {
    return detail::run_each(group, s, opcode::write_zeroes, where, dma_span(), deadline_ns);
}

// Range definition: context attributes, length in blocks, first block (NVM Command Set 1.0, 3.2.3).
template <class Group, sharing Mode, class Retry>
WARPBELL_D status deallocate(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                             const dma_span& list, u64 deadline_ns) {
    const u32 ranges = group.ballot(mine.has_value());
    if (ranges == 0) {
        return status();
    }
    const u64 bytes = static_cast<u64>(port::population(ranges)) * detail::range_bytes;
    status refusal = s.check_data(list, bytes);
    if (refusal.ok() && (reinterpret_cast<u64>(list.template data<u8>()) & (detail::range_bytes - 1u)) != 0) {
        refusal = code::misaligned;
    }
    if (refusal.ok() && mine) {
        refusal = s.check_blocks(opcode::dataset_management, *mine);
    }
    refusal = detail::agree(group, refusal);
    if (!refusal.ok()) {
        return refusal;
    }
    if (mine) {
        const u64 first = mine->start.value;
        const u32 place = mutate::range_by_lane ? port::lane() : rank_in(ranges);
        port::store_quad(list.template data<u32>() + place * 4u, 0, mine->blocks, static_cast<u32>(first),
                         static_cast<u32>(first >> 32));
    }
    sqe entry = s.command(opcode::dataset_management, list, bytes);
    entry.dword[10] = port::population(ranges) - 1u;
    entry.dword[11] = detail::attribute_deallocate;
    // The entries of the list come before the doorbell as the submission entry does: a sync, then F1.
    return detail::run_one(group, s, entry, deadline_ns);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
