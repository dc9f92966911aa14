// What our kernels share: warp numbers, random addresses, verifiable contents, results.
#pragma once

#include "abi_bench.h"
#include <warpbell/warpbell.cuh>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

using namespace wb;

// ---- where this warp is, over the whole launch ---------------------------------------------------------

WARPBELL_D u32 warps_per_block() {
    return (port::block_threads() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES;
}
WARPBELL_D u32 warp_number() {
    return port::block_index() * warps_per_block() + port::thread_index() / WARPBELL_WARP_LANES;
}
WARPBELL_D u32 warps_of_launch() { return port::grid_blocks() * warps_per_block(); }

// ---- random numbers: by counter, so that any lane can have any of them ------------------------------------

constexpr u64 golden = 0x9e3779b97f4a7c15ull;

// Output of splitmix64 for a state that was advanced already.
WARPBELL_D u64 splitmix64(u64 state) {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    return state ^ (state >> 31);
}
// Number `index` of the stream `seed`.
WARPBELL_D u64 random_number(u64 seed, u64 index) { return splitmix64(seed + (index + 1u) * golden); }
// A number below `limit` from 64 random bits, without a division.
WARPBELL_D u64 below(u64 limit, u64 random) { return port::multiply_high(limit, random); }

// ---- CRC-32C

// Plain memory, 8-byte aligned; `bytes` may end anywhere.
WARPBELL_D u32 crc32c(const u32* tables, const u64* words, u64 bytes) {
    u32 crc = ~0u;
    u64 i = 0;
    for (; i < bytes >> 3; ++i) {
        crc = port::crc32c_word(tables, crc, words[i]);
    }
    const u8* rest = reinterpret_cast<const u8*>(words + i);
    for (u64 k = 0; k < (bytes & 7u); ++k) {
        crc = tables[(crc ^ rest[k]) & 255u] ^ crc >> 8;
    }
    return ~crc;
}

// ---- verifiable units: contents depend on address and seed alone -----------------------------------------

class unit_pattern {
  public:
    WARPBELL_D unit_pattern(const u32* tables, u64 seed, u64 lba, u32 bytes)
        : tables_(tables), seed_(seed), lba_(lba), bytes_(bytes) {}

    WARPBELL_D void fill(u64* unit) const {
        u64* payload = unit + header_words;
        for (u32 i = 0; i < payload_words(); ++i) {
            payload[i] = payload_word(i);
        }
        unit[0] = WARPBELL_UNIT_MAGIC;
        unit[1] = lba_;
        unit[2] = seed_;
        unit[3] = header_end(crc32c(tables_, payload, payload_words() * 8u));
    }

    WARPBELL_D bool right(const u64* unit) const {
        return unit[0] == WARPBELL_UNIT_MAGIC && unit[1] == lba_ && unit[2] == seed_ &&
               unit[3] == header_end(crc32c(tables_, unit + header_words, payload_words() * 8u));
    }

    // Word `i` of the unit as it should be; `payload_crc` as payload_crc() gives it.
    WARPBELL_D u64 word(u32 i, u32 payload_crc) const {
        if (i >= header_words) {
            return payload_word(i - header_words);
        }
        return i == 0 ? WARPBELL_UNIT_MAGIC : i == 1 ? lba_ : i == 2 ? seed_ : header_end(payload_crc);
    }
    WARPBELL_D u32 payload_crc() const {
        u32 crc = ~0u;
        for (u32 i = 0; i < payload_words(); ++i) {
            crc = port::crc32c_word(tables_, crc, payload_word(i));
        }
        return ~crc;
    }

    // Slow: the first block of the unit that differs, with the CRC-32C it should have and has. Each word `i`
    // of which changed(i) is true should be the complement of what it was.
    struct difference {
        u64 lba;
        u32 blocks, expected, actual; // blocks: that differ
    };
    WARPBELL_D difference compare(const u64* unit, u32 block_bytes) const {
        return compare(unit, block_bytes, [](u32) { return false; });
    }
    template <class Changed>
    WARPBELL_D difference compare(const u64* unit, u32 block_bytes, Changed changed) const {
        difference found = {lba_, 0, 0, 0};
        const u32 words = block_bytes / 8u, payload = payload_crc();
        for (u32 block = 0; block * block_bytes < bytes_; ++block) {
            u32 expected = ~0u, actual = ~0u;
            for (u32 i = block * words; i < (block + 1u) * words; ++i) {
                const u64 before = word(i, payload);
                expected = port::crc32c_word(tables_, expected, changed(i) ? ~before : before);
                actual = port::crc32c_word(tables_, actual, unit[i]);
            }
            if (expected == actual) {
                continue;
            }
            if (found.blocks++ == 0) {
                found = {lba_ + block, 1, ~expected, ~actual};
            }
        }
        return found;
    }

  private:
    static constexpr u32 header_words = sizeof(warpbell_unit_header) / 8u;
    WARPBELL_D u32 payload_words() const { return bytes_ / 8u - header_words; }
    WARPBELL_D u64 header_end(u32 crc) const { return static_cast<u64>(bytes_) << 32 | crc; }
    WARPBELL_D u64 payload_word(u32 i) const { return random_number(seed_ ^ lba_ * golden, i); }

    const u32* tables_;
    u64 seed_, lba_;
    u32 bytes_;
};

// ---- results

// One lane's quota of a warp's result.
struct tally {
    u64 reads = 0, writes = 0, errors = 0, mismatches = 0;
    u64 error_lba = 0, mismatch_lba = 0;
    u32 error_status = 0, expected = 0, actual = 0;
    u32 timed_out = 0, not_submitted = 0, aborted = 0, retried = 0, queue_losses = 0, recovered = 0;

    WARPBELL_D void error(u64 lba, status s) {
        if (errors++ == 0) {
            error_lba = lba;
            error_status = s.bits;
        }
    }
    WARPBELL_D void mismatch(const unit_pattern::difference& d) {
        if (mismatches == 0) {
            mismatch_lba = d.lba;
            expected = d.expected;
            actual = d.actual;
        }
        mismatches += d.blocks;
    }
    // What the device library counted by itself.
    WARPBELL_D void add(const retry& did) {
        timed_out += did.timed_out;
        not_submitted += did.not_submitted;
        aborted += did.aborted;
        retried += did.retried;
        queue_losses += did.queue_losses;
        recovered += did.recovered;
    }
};

WARPBELL_D const warpbell_mailbox* mailbox_of(u64 pointer) {
    return reinterpret_cast<const warpbell_mailbox*>(pointer);
}
WARPBELL_D bool stop_asked(u64 mailbox) { return port::load_relaxed_sys(&mailbox_of(mailbox)->stop) != 0; }

// Makes all warps of the launch stop, as the host does.
WARPBELL_D void ask_to_stop(u64 mailbox) {
    port::store_relaxed_sys(&reinterpret_cast<warpbell_mailbox*>(mailbox)->stop, 1);
}

// The first error of the launch, for the host to see while the kernel runs. Off every hot path.
WARPBELL_D void report_error(u64 mailbox, u64 lba, status s) {
    warpbell_mailbox* mail = reinterpret_cast<warpbell_mailbox*>(mailbox);
    if (port::load_relaxed_sys(&mail->claimed) != 0 || port::cas_relaxed_sys(&mail->claimed, 0, 1) != 0) {
        return;
    }
    mail->error_lba = lba;
    mail->error_status = s.bits;
    mail->error_block = port::block_index();
    mail->error_thread = port::thread_index();
    port::store_release_sys(&mail->reported, 1);
}

template <class Group> WARPBELL_D u64 sum(const Group& group, u64 value) {
    u64 total = 0;
    for (u32 left = group.mask(); left != 0; left &= left - 1u) {
        total += group.from(port::lowest(left), value);
    }
    return total;
}

// Adds the lanes up and writes the warp's result, once.
template <class Group>
WARPBELL_D void write_result(const Group& group, u64 results, const tally& mine, u32 io_bytes, u32 queue,
                             u64 start_ns) {
    const u32 failed = group.ballot(mine.errors != 0), wrong = group.ballot(mine.mismatches != 0);
    const u32 error_from = failed ? port::lowest(failed) : group.leader();
    const u32 wrong_from = wrong ? port::lowest(wrong) : group.leader();
    warpbell_warp_result r = {};
    r.abi_version = WARPBELL_BENCH_ABI_VERSION;
    r.size = sizeof(r);
    r.reads = sum(group, mine.reads);
    r.writes = sum(group, mine.writes);
    r.bytes_read = r.reads * io_bytes;
    r.bytes_written = r.writes * io_bytes;
    r.errors = sum(group, mine.errors);
    r.error_lba = group.from(error_from, mine.error_lba);
    r.error_status = static_cast<u32>(group.from(error_from, mine.error_status));
    r.queue = queue;
    r.mismatches = sum(group, mine.mismatches);
    r.mismatch_lba = group.from(wrong_from, mine.mismatch_lba);
    r.expected = static_cast<u32>(group.from(wrong_from, mine.expected));
    r.actual = static_cast<u32>(group.from(wrong_from, mine.actual));
    r.start_ns = start_ns;
    r.end_ns = port::clock_ns();
    r.timed_out = sum(group, mine.timed_out);
    r.not_submitted = sum(group, mine.not_submitted);
    r.aborted = sum(group, mine.aborted);
    r.retried = sum(group, mine.retried);
    r.queue_losses = sum(group, mine.queue_losses);
    r.recovered = sum(group, mine.recovered);
    if (group.is_leader()) {
        reinterpret_cast<warpbell_warp_result*>(results)[warp_number()] = r;
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
