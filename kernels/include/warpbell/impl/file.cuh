// Bodies of file.cuh.
#pragma once

#include "../file.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

// Why a lane's read would be refused, or success.
template <sharing Mode, class Retry>
WARPBELL_D status check_file_read(const session<Mode, Retry>& s, const file& f, u64 offset,
                                  const dma_span& to) {
    if (!f.fits() || f.block_bytes() != s.block_bytes()) {
        return code::invalid_field;
    }
    const u64 within = f.block_bytes() - 1u;
    if ((offset & within) != 0 || (to.bytes() & within) != 0 || to.bytes() == 0) {
        return code::misaligned;
    }
    const u64 first = offset >> f.block_shift(), blocks = to.bytes() >> f.block_shift();
    if ((first >= f.blocks() || blocks > f.blocks() - first) && !mutate::file_end_unchecked) {
        return code::out_of_range;
    }
    return to.inside() ? status() : status(code::out_of_buffer);
}

// What is left of a lane's read.
struct file_rest {
    u64 block, at, blocks;

    // The next extent to read, with its part of the buffer. Holes on the way are zeroed, in memory that a
    // command might move data to: of the rest of a read that meets other memory, `said` is why it ends.
    template <sharing Mode, class Retry>
    WARPBELL_D optional<extent> next(const session<Mode, Retry>& s, const file& f, const dma_span& to,
                                     dma_span& part, status& said) {
        while (blocks != 0) {
            const file_place place = f.find(block);
            const u64 most = place.hole ? s.max_blocks() : 0x80000000u;
            const u64 rest = blocks < most ? blocks : most;
            const u64 n = place.blocks < rest ? place.blocks : rest;
            part = to.subspan(at, n << f.block_shift());
            if (!place.hole) {
                return extent{lba(place.lba), static_cast<u32>(n)};
            }
            said = mutate::file_hole_unchecked ? status() : s.check_data(part, part.bytes());
            if (!said.ok()) {
                blocks = 0;
                break;
            }
            if (!mutate::file_hole_kept) {
                zero(part.data<u8>(), part.data<u8>() + part.bytes());
            }
            advance(n, f.block_shift());
        }
        return nullopt;
    }
    WARPBELL_D void advance(u64 n, u32 shift) {
        block += n;
        at += n << shift;
        blocks -= n;
    }
    // By this lane alone. Data may begin at any dword.
    WARPBELL_NOINLINE static void zero(u8* byte, u8* const last) {
        while (byte != last && (reinterpret_cast<u64>(byte) & 7u) != 0) {
            *byte++ = 0;
        }
        for (; last - byte >= 8; byte += 8) {
            *reinterpret_cast<u64*>(byte) = 0;
        }
        while (byte != last) {
            *byte++ = 0;
        }
    }
};

// Reads whole blocks of the file from `block` on. What is behind its end is zeroes.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_file(const Group& group, session<Mode, Retry>& s, const file& f, optional<u64> block,
                            const dma_span& to, u64 timeout_ns) {
    status said;
    file_rest rest = {block ? *block : 0, 0, block ? to.bytes() >> f.block_shift() : 0};
    do {
        dma_span part;
        const optional<extent> from = rest.next(s, f, to, part, said);
        const status one = warpbell::read_each(group, s, from, part, timeout_ns);
        if (from && one.ok()) {
            rest.advance(from->blocks, f.block_shift());
        } else if (from) {
            said = one;
            rest.blocks = 0;
        }
    } while (group.ballot(rest.blocks != 0) != 0);
    // The last block may have bytes of a file that was longer once.
    const u64 begin = block ? *block << f.block_shift() : f.bytes();
    if (said.ok() && begin < f.bytes() && to.bytes() > f.bytes() - begin && !mutate::file_tail_kept) {
        file_rest::zero(to.data<u8>() + (f.bytes() - begin), to.data<u8>() + to.bytes());
    }
    return said;
}

} // namespace detail

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& who, session<Mode, Retry>& s, const file& f, optional<u64> offset,
                            const dma_span& to, u64 timeout_ns) {
    const auto group = group_of(who);
    const status refusal = offset ? detail::check_file_read(s, f, *offset, to) : status();
    const bool reads = offset && refusal.ok();
    const optional<u64> block = reads ? optional<u64>(*offset >> f.block_shift()) : optional<u64>();
    const status said = detail::read_file(group, s, f, block, to, timeout_ns);
    return reads ? said : refusal;
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read(const Group& who, session<Mode, Retry>& s, const file& f, u64 offset,
                       const dma_span& to, u64 timeout_ns) {
    const auto group = group_of(who);
    const status refusal = detail::check_file_read(s, f, offset, to);
    if (!refusal.ok()) {
        return refusal;
    }
    const u64 blocks = to.bytes() >> f.block_shift(), even = (blocks + group.size() - 1u) / group.size();
    const u64 share = even > s.max_blocks() ? even : s.max_blocks();
    const u64 first = group.thread_rank() * share, rest = first < blocks ? blocks - first : 0;
    const dma_span part =
        to.subspan(first << f.block_shift(), (rest < share ? rest : share) << f.block_shift());
    const optional<u64> block =
        rest != 0 ? optional<u64>((offset >> f.block_shift()) + first) : optional<u64>();
    const status mine = detail::read_file(group, s, f, block, part, timeout_ns);
    return detail::agree_on_data(group, mine);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
