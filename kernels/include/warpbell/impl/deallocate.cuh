// Bodies of deallocate.cuh.
#pragma once

#include "../deallocate.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

constexpr u32 attribute_deallocate = 1u << 2; // dword 11 of Dataset Management
constexpr u32 range_bytes = 16;

// Why no command with these extents is sent: the same in each lane. `ranges`: lanes with an extent.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status check_ranges(const Group& group, const session<Mode, Retry>& s, optional<extent> mine,
                               const dma_span& list, u32 ranges) {
    const u64 bytes = static_cast<u64>(port::population(ranges)) * range_bytes;
    status refusal = s.has(opcode::dataset_management) ? s.check_data(list, bytes) : status::invalid_opcode();
    if (refusal.ok() && (reinterpret_cast<u64>(list.template data<u8>()) & (range_bytes - 1u)) != 0) {
        refusal = code::misaligned;
    }
    if (refusal.ok() && mine) {
        refusal = s.check_blocks(opcode::dataset_management, *mine);
    }
    u64 blocks = 0;
    u32 longest = 0;
    WARPBELL_NO_UNROLL
    for (u32 left = ranges; left != 0; left &= left - 1u) {
        const u32 its = group.from(port::lowest(left), mine ? mine->blocks : 0u);
        blocks += its;
        longest = its > longest ? its : longest;
    }
    refusal = refusal.ok() ? s.check_ranges(port::population(ranges), longest, blocks) : refusal;
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
    sqe entry = s.entry(opcode::dataset_management, list, static_cast<u64>(count) * range_bytes);
    entry.dword[10] = count - 1u;
    entry.dword[11] = attribute_deallocate;
    return entry;
}

} // namespace detail

// The entries of the list come before the doorbell as the submission entry does: a sync, then F1.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status deallocate(const Group& who, session<Mode, Retry>& s, optional<extent> mine,
                             const dma_span& list, u64 timeout_ns) {
    const auto group = group_of(who);
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
WARPBELL_D io_token submit_deallocate(const Group& who, session<Mode, Retry>& s, optional<extent> mine,
                                      const dma_span& list, u64 timeout_ns) {
    const auto group = group_of(who);
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

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
