// Bodies of coalesce.cuh.
#pragma once

#include "../coalesce.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

// What one lane asks for, as its neighbours see it.
struct asked {
    u64 start, end;   // blocks
    u64 iova, beyond; // bytes
    // Its buffer, by what the controller is told of it. Where the reference lies says nothing: lanes may hold
    // copies, and on a GPU each lane's own variable has the same address.
    u64 base, bytes, prp_iova;
    u32 what; // opcode and flags
};

// The lanes of `asking` at which a command begins: those that do not follow on the lane before them, and
// those at which it would become larger than `most` blocks.
template <class Group> WARPBELL_D u32 heads_of(const Group& group, u32 asking, const asked& mine, u32 most) {
    const u32 me = port::lane(), before = asking & port::lanes_below();
    const bool asks = (asking >> me & 1u) != 0;
    const u32 neighbour = before != 0 ? port::highest(before) : me;
    const u64 end = group.from(neighbour, mine.end), beyond = group.from(neighbour, mine.beyond);
    const bool same_base = group.from(neighbour, mine.base) == mine.base;
    const bool same_size = group.from(neighbour, mine.bytes) == mine.bytes;
    const bool same_list = group.from(neighbour, mine.prp_iova) == mine.prp_iova;
    const bool same_buffer = (same_base && same_size && same_list) || mutate::coalesced_other_buffer;
    const bool same_what = group.from(neighbour, mine.what) == mine.what || mutate::coalesced_other_command;
    const bool follows = same_what && same_buffer && (end == mine.start || mutate::coalesced_over_a_gap) &&
                         (beyond == mine.iova || mutate::coalesced_elsewhere) && before != 0;
    u32 heads = group.ballot(asks && !follows);
    for (;;) {
        const u32 mine_or_before = heads & (port::lanes_below() | 1u << me);
        const u32 head = mine_or_before != 0 ? port::highest(mine_or_before) : me;
        const u64 blocks = mine.end - group.from(head, mine.start);
        const u32 over = group.ballot(asks && head != me && blocks > most);
        if (over == 0 || mutate::coalesced_too_large) {
            return heads;
        }
        // Of each command the first lane that is too much begins the next.
        const u32 since_head = port::lanes_below() & ~((1u << head) - 1u);
        heads |= group.ballot((over >> me & 1u) != 0 && (over & since_head) == 0);
    }
}

} // namespace detail

template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_coalesced(const Group& who, session<Mode, Retry>& s, const command& what,
                                u64 timeout_ns) {
    const auto group = group_of(who);
    const optional<extent>& where = what.where;
    const dma_span& data = what.data;
    const status refusal = where ? detail::check_whole(s, what.op, *where, data, what.flags) : status();
    const u32 asking = group.ballot(where.has_value() && refusal.ok());
    const u32 me = port::lane(), mine = asking & 1u << me;
    detail::asked a = {};
    if (mine != 0) {
        a.start = where->start.value;
        a.end = where->start.value + where->blocks;
        a.what = static_cast<u32>(what.op) | what.flags;
    }
    if (mine != 0 && detail::carries_blocks(what.op)) {
        const warpbell_buffer_ref& buffer = data.buffer();
        a.iova = data.iova();
        a.beyond = data.iova() + static_cast<u64>(where->blocks) * s.block_bytes();
        a.base = mutate::coalesced_by_place ? reinterpret_cast<u64>(&buffer) : buffer.iova;
        a.bytes = buffer.bytes;
        a.prp_iova = buffer.prp_iova;
    }
    const u32 heads = detail::heads_of(group, asking, a, s.max_blocks(what.op));
    const u32 to_me = port::lanes_below() | 1u << me;
    // The last lane of the command that begins here.
    const u32 later = heads & ~to_me;
    const u32 members = asking & (later != 0 ? (1u << port::lowest(later)) - 1u : ~0u);
    const u64 end = group.from(members != 0 ? port::highest(members) : me, a.end);
    optional<extent> whole;
    if ((heads >> me & 1u) != 0) {
        whole = extent{where->start, static_cast<u32>(end - a.start)};
    }
    const dma_span part = whole ? data.subspan(0, (end - a.start) * s.block_bytes()) : data;
    const status answer = detail::run_each(group, s, what.op, whole, part, timeout_ns, what.flags);
    group.sync(); // one lane saw the completion; the others read the data of it too
    const u32 head = (heads & to_me) != 0 ? port::highest(heads & to_me) : me;
    const u32 bits = group.from(head, static_cast<u32>(answer.bits));
    const status said = mutate::coalesced_failure_hidden ? answer : status::from_bits(bits);
    return mine != 0 ? said : refusal;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
