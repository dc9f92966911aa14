// What kernels `bench_array_*` do: each lane of a warp reads or writes a word of an array, then the next,
// until told to stop. The array lies over a page cache, or, for comparison, in the memory of its pages.
//
// What is written is never what was there before: the complement of the page's pattern. Which words have it
// is written down, so that a last pass can tell a store that was lost from none.
//
// A clock is looked at once for `between_polls` words of a lane, as a poll may cost more than a hit. So
// single accesses have no latencies here.
#pragma once

#include "workload.cuh"

#include "abi_bench.h"
#include <warpbell/array.cuh>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// ---- the two arrays

template <class Cache> class cached_words {
  public:
    WARPBELL_D explicit cached_words(Cache& pages)
        : array_(pages, 0, pages.pages() * pages.page_bytes() / 8u) {}
    WARPBELL_D status load(optional<u64> index, u64& value) {
        return array_.try_load(this_warp(), index, value);
    }
    WARPBELL_D status store(optional<u64> index, u64 value) {
        return array_.store(this_warp(), index, value);
    }

  private:
    array_view<u64, Cache> array_;
};

class plain_words {
  public:
    WARPBELL_D explicit plain_words(u64* words) : words_(words) {}
    WARPBELL_D status load(optional<u64> index, u64& value) const {
        value = index ? words_[*index] : 0;
        return status();
    }
    WARPBELL_D status store(optional<u64> index, u64 value) const {
        if (index) {
            words_[*index] = value;
        }
        return status();
    }

  private:
    u64* const words_;
};

// ---- which words were stored: a bit of each, or nobody asks

class stored_words {
  public:
    WARPBELL_D explicit stored_words(u64 bits) : bits_(reinterpret_cast<u64*>(bits)) {}
    WARPBELL_D void add(u64 index) const {
        if (bits_ != nullptr) {
            port::or_relaxed_gpu(bits_ + (index >> 6), 1ull << (index & 63u));
        }
    }
    // Of an earlier launch.
    WARPBELL_D bool contains(u64 index) const {
        return bits_ != nullptr && (bits_[index >> 6] >> (index & 63u) & 1u) != 0;
    }

  private:
    u64* const bits_;
};

// ---- a warp

// What ends a warp.
WARPBELL_D bool is_lost(const this_warp_t& warp, status said) {
    return warp.ballot(said.is(code::queue_lost) || said.is(code::ssd_lost)) != 0;
}

template <class Words> class array_warp : workload {
  public:
    WARPBELL_D array_warp(const warpbell_bench_array_args& args, Words& array)
        : workload(args.bench, warp_number(), warps_of_launch(), stream(args.spread)), array_(array),
          stored_(args.stored), sums_(reinterpret_cast<u64*>(args.sums)), spread_(args.spread),
          neighbours_(WARPBELL_WARP_LANES / args.spread), page_words_(io_bytes_ / 8u),
          page_shift_(port::highest(args.bench.blocks_per_io)) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        start(warp);
        for (u32 ticks = 1; !ending(); ++ticks) {
            WARPBELL_NO_UNROLL
            for (u32 n = 0; n < between_polls && !ending(); ++n) {
                access();
            }
            tick(warp, (ticks & 15u) == 0);
        }
        sums_[warp_number() * WARPBELL_WARP_LANES + port::lane()] = sum_;
        write_result(warp, args_.results, tally_, sizeof(u64), warp_number() % args_.ns.queue_count,
                     start_ns_);
    }

  private:
    static constexpr u32 between_polls = 16;

    // Lanes of one page draw the same.
    WARPBELL_D static u64 stream(u32 spread) {
        return static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES +
               port::lane() / (WARPBELL_WARP_LANES / spread);
    }

    // One word of each lane, as far as any are left.
    WARPBELL_D void access() {
        const u32 n = part_of(WARPBELL_WARP_LANES);
        const bool mine = port::lane() < n;
        const io what = draw(port::lane() / neighbours_);
        const u32 word = drawn_word();
        const u64 index = ((what.lba - args_.first_lba) >> page_shift_) * page_words_ + word;
        const u64 before = pattern(what.lba).word(word, 0);
        u64 found = before;
        status said;
        if (args_.read_percent != 0) {
            said = array_.load(mine && !what.writes ? optional<u64>(index) : nullopt, found);
        }
        if (args_.read_percent != 100) {
            const status stored = array_.store(mine && what.writes ? optional<u64>(index) : nullopt, ~before);
            said = what.writes ? stored : said;
        }
        if (mine) {
            finish(what, index, said, found, before);
        }
        stopping_ = stopping_ || is_lost(this_warp(), said);
        pass(n, spread_);
    }

    // Behind the header of the page's pattern, of which one word is its checksum.
    WARPBELL_D u32 drawn_word() {
        constexpr u32 header = sizeof(warpbell_unit_header) / sizeof(u64);
        const u64 random = random_number(seed_, drawn_++);
        const u32 word = (static_cast<u32>(random) + port::lane() % neighbours_) & (page_words_ - 1u);
        return word < header ? word + header : word;
    }

    // Another warp may store to a word that is read: either value is right, until the last pass.
    WARPBELL_D void finish(const io& what, u64 index, status said, u64 found, u64 before) {
        if (!said.ok()) {
            fail(what.lba, said);
            return;
        }
        ++(what.writes ? tally_.writes : tally_.reads);
        if (what.writes) {
            stored_.add(index);
        }
        sum_ += found;
        const bool right = found == before || (args_.read_percent != 100 && found == ~before);
        if (args_.verify && !right) {
            const u32* tables = reinterpret_cast<const u32*>(args_.crc_tables);
            tally_.mismatch({what.lba, 1, crc32c(tables, &before, 8), crc32c(tables, &found, 8)});
        }
    }

    Words& array_;
    const stored_words stored_;
    u64* const sums_;
    const u32 spread_, neighbours_, page_words_, page_shift_;
    u64 sum_ = 0;
};

// ---- the last pass

// Each page once, a lane's at a time, read through a cache that has none of them: a word that was stored is
// what was stored, and any other what it was before.
template <class Cache> class array_check : workload {
  public:
    WARPBELL_D array_check(const warpbell_bench_array_args& args, Cache& pages)
        : workload(args.bench, warp_number(), warps_of_launch(), 0), pages_(pages), stored_(args.stored),
          page_shift_(port::highest(args.bench.blocks_per_io)) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        start(warp);
        while (!ending()) {
            const u32 n = part_of(WARPBELL_WARP_LANES);
            const status said = check(port::lane() < n, draw(port::lane()).lba);
            stopping_ = stopping_ || is_lost(warp, said);
            pass(n);
            tick(warp, true);
        }
        write_result(warp, args_.results, tally_, io_bytes_, warp_number() % args_.ns.queue_count, start_ns_);
    }

  private:
    WARPBELL_D status check(bool mine, u64 lba) {
        const u64 page = (lba - args_.first_lba) >> page_shift_;
        const auto compare = [&](u8* data) {
            const auto stored = [&](u32 i) { return stored_.contains(page * (io_bytes_ / 8u) + i); };
            const u64* found = reinterpret_cast<const u64*>(data);
            tally_.mismatch(pattern(lba).compare(found, 1u << args_.ns.block_shift, stored));
            ++tally_.reads;
        };
        const status said =
            pages_.use_each(this_warp(), mine ? optional<u64>(page) : nullopt, false, compare);
        if (mine && !said.ok()) {
            fail(lba, said);
        }
        return said;
    }

    Cache& pages_;
    const stored_words stored_;
    const u32 page_shift_;
};

// ---- the kernels: one for each policy, as a compiler takes many times as long for all of them in one

// Lambdas that take it name it: NVRTC takes those with `auto` for host functions.
template <class Policy>
using pages_by = page_cache<session<sharing::shared>, page_access::read_write, Policy>;

template <class Policy, class Use>
WARPBELL_D void with_pages(const warpbell_bench_array_args& args, Use use) {
    const warpbell_buffer_ref buffer = args.bench.buffer;
    session<sharing::shared> ssd(this_warp(), args.bench.ns, warp_number());
    pages_by<Policy> pages(this_warp(), args.cache, ssd, dma_span(buffer));
    use(pages);
    pages.detach(this_warp());
    ssd.detach(this_warp());
}

template <class Policy> WARPBELL_D void run_bench_array(const warpbell_bench_array_args& args) {
    with_pages<Policy>(args, [&](pages_by<Policy>& pages) {
        cached_words<pages_by<Policy>> words(pages);
        array_warp<cached_words<pages_by<Policy>>>(args, words).run();
    });
}

// The same words by plain loads and stores, where the array lies in the memory of the pages.
WARPBELL_D void run_bench_plain(const warpbell_bench_array_args& args) {
    const warpbell_buffer_ref buffer = args.bench.buffer;
    plain_words words(dma_span(buffer).data<u64>());
    array_warp<plain_words>(args, words).run();
}

WARPBELL_D void run_bench_array_check(const warpbell_bench_array_args& args) {
    with_pages<clock_sweep>(
        args, [&](pages_by<clock_sweep>& pages) { array_check<pages_by<clock_sweep>>(args, pages).run(); });
}

// One warp flushes the cache.
WARPBELL_D void run_bench_array_flush(const warpbell_bench_array_args& args) {
    with_pages<clock_sweep>(args, [&](pages_by<clock_sweep>& pages) {
        const this_warp_t warp;
        const u64 start_ns = port::clock_ns();
        tally did;
        const status said = pages.flush(warp);
        if (warp.is_leader() && !said.ok()) {
            did.error(args.bench.first_lba, said);
        }
        write_result(warp, args.bench.results, did, sizeof(u64), 0, start_ns);
    });
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
