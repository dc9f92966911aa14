// Bodies of file.cuh.
#pragma once

#include "../file.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

// Zeroes bytes [begin, end) of a buffer, by this lane alone. Data may begin at any dword.
WARPBELL_D void zero_bytes(const dma_span& to, u64 begin, u64 end) {
    unsigned char* byte = to.data<unsigned char>() + begin;
    unsigned char* const last = to.data<unsigned char>() + end;
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
    if (first >= f.blocks() || blocks > f.blocks() - first) {
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
            said = s.check_data(part, part.bytes());
            if (!said.ok()) {
                blocks = 0;
                break;
            }
            zero_bytes(part, 0, part.bytes());
            advance(n, f.block_shift());
        }
        return nullopt;
    }
    WARPBELL_D void advance(u64 n, u32 shift) {
        block += n;
        at += n << shift;
        blocks -= n;
    }
};

} // namespace detail

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& who, session<Mode, Retry>& s, const file& f, optional<u64> offset,
                            const dma_span& to, u64 timeout_ns) {
    const auto group = group_of(who);
    status said = offset ? detail::check_file_read(s, f, *offset, to) : status();
    const bool reads = offset && said.ok();
    detail::file_rest rest = {reads ? *offset >> f.block_shift() : 0, 0,
                              reads ? to.bytes() >> f.block_shift() : 0};
    for (;;) {
        dma_span part;
        const optional<extent> from = rest.next(s, f, to, part, said);
        if (group.ballot(from.has_value()) == 0) {
            break;
        }
        const status one = read_each(group, s, from, part, timeout_ns);
        if (!from) {
            continue;
        }
        if (one.ok()) {
            rest.advance(from->blocks, f.block_shift());
        } else {
            said = one;
            rest.blocks = 0;
        }
    }
    // The last block may have bytes of a file that was longer once.
    if (reads && said.ok() && *offset + to.bytes() > f.bytes()) {
        detail::zero_bytes(to, f.bytes() - *offset, to.bytes());
    }
    return said;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
