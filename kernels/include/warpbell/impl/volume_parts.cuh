// Where the blocks of a volume lie, and the sessions with its members.
#pragma once

#include "../volume.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

// What one command of a lane moves: blocks within one chunk. No blocks: nothing.
struct volume_part {
    u64 chunk = 0;  // of the volume
    u64 on_ssd = 0; // the same chunk, counted on the member
    u64 offset = 0; // of its data, in bytes
    u32 member = 0; // that has the chunk; replicated: none in particular
    u32 first = 0;  // block in the chunk
    u32 blocks = 0;
    // Blocks of the member with this reference.
    WARPBELL_D extent on(const warpbell_volume_ref& ref, u32 m) const {
        const u32 unit_shift = reinterpret_cast<const warpbell_volume_member*>(ref.members)[m].unit_shift;
        const u32 shift = mutate::units_unshifted ? 0 : unit_shift;
        return extent{lba((on_ssd * ref.chunk_blocks + first) << shift), blocks << shift};
    }
};

// Zone after zone: where the smallest members end, the stripe goes on over the others, which are sorted by
// size.
WARPBELL_D void find_in_stripe(const warpbell_volume_ref& ref, volume_part& part) {
    const auto* members = reinterpret_cast<const warpbell_volume_member*>(ref.members);
    u64 chunk = part.chunk, row = 0;
    for (u32 first = 0; first < ref.member_count; ++first) {
        const u64 width = ref.member_count - first;
        const u64 here = (members[first].chunks - row) * width;
        if (chunk < here || mutate::zones_ignored) {
            part.member = first + static_cast<u32>(chunk % width);
            part.on_ssd = row + chunk / width;
            return;
        }
        chunk -= here;
        row = members[first].chunks;
    }
}

WARPBELL_D void find_in_row(const warpbell_volume_ref& ref, volume_part& part) {
    const auto* members = reinterpret_cast<const warpbell_volume_member*>(ref.members);
    part.on_ssd = part.chunk;
    while (part.on_ssd >= members[part.member].chunks) {
        part.on_ssd -= members[part.member++].chunks;
    }
}

// What each member takes in one command; at least 1.
WARPBELL_D u32 piece_blocks(const warpbell_volume_ref& ref, opcode op) {
    u32 most = ref.piece_blocks;
    if (op == opcode::write_zeroes && !mutate::zeroes_limit_ignored) {
        const auto* members = reinterpret_cast<const warpbell_volume_member*>(ref.members);
        WARPBELL_NO_UNROLL
        for (u32 m = 0; m < ref.member_count; ++m) {
            const u32 own = members[m].ns.zeroes_blocks >> members[m].unit_shift;
            most = own != 0 && own < most ? own : most;
        }
    }
    return most;
}

// Parts begin at chunks, and then every `piece` blocks: part `index` of an extent of the volume; no blocks
// behind its end.
WARPBELL_D volume_part part_of(const warpbell_volume_ref& ref, extent whole, u64 index, u64 piece) {
    const u64 chunk = ref.chunk_blocks;
    const u64 per_chunk = (chunk + piece - 1u) / piece;
    const u64 start = whole.start.value, end = start + whole.blocks;
    const u64 number = start / chunk * per_chunk + start % chunk / piece + index;
    volume_part part;
    part.chunk = number / per_chunk;
    const u64 chunk_start = part.chunk * chunk;
    const u64 begin = chunk_start + number % per_chunk * piece;
    const bool in_chunk = begin + piece < chunk_start + chunk || mutate::chunk_crossed;
    const u64 limit = in_chunk ? begin + piece : chunk_start + chunk;
    const u64 from = begin < start ? start : begin;
    const u64 to = limit < end ? limit : end;
    if (from >= end) {
        return part;
    }
    part.first = static_cast<u32>(from - chunk_start);
    part.blocks = static_cast<u32>(to - from);
    part.offset = (from - start) << ref.block_shift;
    if (ref.layout == WARPBELL_VOLUME_STRIPE) {
        find_in_stripe(ref, part);
    } else if (ref.layout == WARPBELL_VOLUME_CONCATENATE) {
        find_in_row(ref, part);
    } else {
        part.on_ssd = part.chunk;
    }
    return part;
}

// A read of a lane that is on its way, and where it went.
struct [[nodiscard]] member_read {
    io_token token;
    u64 bytes = 0;
    u32 member = 0;
    WARPBELL_D bool in_flight() const { return token.in_flight(); }
    // Why nothing was submitted; success of one in flight, and of an empty one.
    WARPBELL_D status refusal() const { return in_flight() ? status() : token.refusal(); }
};

// Submits each lane's read by `submit(member, whether this lane has one there)`, a member at a time: `mask`
// has a lane's member, or none.
template <class Group, class Submit>
WARPBELL_D void on_each_member(const Group& group, u32 members, u32 mask, member_read& read,
                               const Submit& submit) {
    read.member = port::lowest_if_any(mask);
    WARPBELL_NO_UNROLL
    for (u32 m = 0; m < members; ++m) {
        const bool want = (mask >> m & 1u) != 0;
        if (group.ballot(want) == 0) {
            continue;
        }
        io_token token = submit(m, want);
        if (want) {
            read.token = warpbell::move(token);
        }
    }
}

// 0, 1, .. to expand a list of sessions by, which can be neither copied nor assigned.
template <u32... I> struct numbers {};
template <u32 Count, u32... I> struct first_numbers : first_numbers<Count - 1u, Count - 1u, I...> {};
template <u32... I> struct first_numbers<0, I...> {
    using type = numbers<I...>;
};

// A session with each member of a volume, and what this lane moved there.
template <sharing Mode, u32 Members, class Map, class Retry> class member_sessions {
  public:
    template <class Group, u32... I>
    WARPBELL_D member_sessions(const Group& group, const warpbell_volume_ref& ref, u32 count, u32 warp,
                               Retry retries, numbers<I...>)
        : own_{session<Mode, Retry>(group, ns_of(ref, I < count ? I : 0),
                                    I < count ? position(ref, I, warp) : none, retries)...} {}
    WARPBELL_D session<Mode, Retry>& operator[](u32 index) { return own_[index]; }

    u64 bytes_read[Members] = {}, bytes_written[Members] = {};

  private:
    static constexpr u32 none = ~0u; // a warp that no queue has a slot for: it is refused
    WARPBELL_D static const warpbell_namespace_ref& ns_of(const warpbell_volume_ref& ref, u32 index) {
        return reinterpret_cast<const warpbell_volume_member*>(ref.members)[index].ns;
    }
    WARPBELL_D static u32 position(const warpbell_volume_ref& ref, u32 index, u32 warp) {
        return Map::position(warp, ns_of(ref, index).queue_count);
    }

    session<Mode, Retry> own_[Members];
};

} // namespace detail
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
