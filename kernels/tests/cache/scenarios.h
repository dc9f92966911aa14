// scenarios.h - each is a rule of the cache: what kernels do, and what must come of it.
#pragma once

#include "model.h"

#include <cstdlib>

using namespace model;

inline u32 warp_number() { return port::block_index(); }
// By one lane of a warp, where all of them know it.
template <class To, class What> void note(To& to, const What& what) {
    if (port::lane() == 0) {
        to = what;
    }
}
template <class To> void count(To& to, bool one) {
    if (port::lane() == 0) {
        to += one;
    }
}
inline u64 thread_number() { return port::block_index() * 32u + port::lane(); }

inline bool expect_done(const harness::Outcome& outcome) {
    if (outcome.state != WB_SIMT_DONE) {
        std::printf("not done, state %u: %s\n", outcome.state, outcome.text.c_str());
    }
    return CHECK(outcome.state == WB_SIMT_DONE);
}

// 64 warps that want one page cause one read, and each sees all of it.
inline void one_read(u64 seed) {
    fixture b(16, 8);
    std::vector<u64> wrong(64);
    const auto outcome = b.run<read_write>(64, seed, [&](read_write& cache) {
        const auto page = cache.acquire(this_warp(), 5);
        const u64 found = page ? page.template data<u64>()[port::lane() * 2u] : 0;
        const u32 bad = this_warp().ballot(found != mixed(5 * page_words + port::lane() * 2u));
        count(wrong[warp_number()], bad != 0);
    });
    if (!expect_done(outcome)) {
        return;
    }
    CHECK(b.disk.reads[5] == 1);
    CHECK(std::accumulate(wrong.begin(), wrong.end(), 0ull) == 0);
    CHECK(b.report.misses == 1 && b.report.hits == 63 && b.pins() == 0);
}

// Random loads, stores and additions, each lane of words of its own which lie among those of all others: they
// see what the lane's own model says, and so does the SSD after a flush.
template <class Cache> void random_words(u64 seed, u32 lines, u64 first_byte, u32 warps, u32 steps) {
    const u64 threads = warps * 32u, per_thread = 5,
              pages = (threads * per_thread * 8u + first_byte) / block_bytes + 1u;
    fixture b(pages, lines);
    std::vector<u64> expected(threads * per_thread), wrong(threads), failures(threads);
    const u8* const disk = reinterpret_cast<const u8*>(b.disk.words.data()) + first_byte;
    std::memcpy(expected.data(), disk, expected.size() * 8u);
    const auto outcome = b.run<Cache>(warps, seed, [&](Cache& cache) {
        const u64 me = thread_number();
        array_view<u64, Cache> array(cache, first_byte, threads * per_thread);
        for (u32 step = 0; step < steps; ++step) {
            const u64 drawn = mixed(seed << 40 ^ me << 20 ^ step);
            const u64 index = drawn % per_thread * threads + me, what = drawn >> 32 & 3u;
            optional<u64> mine[3];
            mine[what % 3u] = index;
            u64 value = 0;
            failures[me] += !array.try_load(this_warp(), mine[0], value).ok();
            wrong[me] += mine[0] && value != expected[index];
            failures[me] += !array.store(this_warp(), mine[1], drawn).ok();
            expected[index] = mine[1] ? drawn : expected[index];
            if (first_byte % 8u == 0) {
                failures[me] += !array.atomic_add(this_warp(), mine[2], drawn).ok();
                expected[index] += mine[2] ? drawn : 0;
            }
        }
        failures[me] += !cache.flush(this_warp()).ok();
    });
    if (!expect_done(outcome)) {
        return;
    }
    const auto sum = [](const std::vector<u64>& each) {
        return std::accumulate(each.begin(), each.end(), 0ull);
    };
    CHECK(sum(failures) == 0);
    CHECK(sum(wrong) == 0);
    CHECK(std::memcmp(expected.data(), disk, expected.size() * 8u) == 0);
    CHECK(b.pins() == 0 && b.report.error_status == 0);
}

// Words of two pages that take turns in one line, while it changes hands as fast as it can.
inline void changing_line(u64 seed) {
    constexpr u32 warps = 4;
    fixture b(2, 1);
    b.disk.slow = 0;
    std::vector<u64> wrong(warps);
    const auto outcome = b.run<read_only>(warps, seed, [&](read_only& cache) {
        array_view<u64, read_only> array(cache, 0, 2 * page_words);
        for (u64 step = 0; step < 12; ++step) {
            const u64 index = (warp_number() + step) % 2u * page_words + port::lane() * 2u;
            const u64 found = array[index];
            count(wrong[warp_number()], this_warp().ballot(found != mixed(index)) != 0);
        }
    });
    if (expect_done(outcome)) {
        CHECK(std::accumulate(wrong.begin(), wrong.end(), 0ull) == 0);
    }
}

// Lanes of a warp see what one of them has stored before, and what another warp stores; and every page of one
// bucket is told from the others.
inline void one_bucket(u64 seed) {
    constexpr u32 warps = 3;
    fixture b(7, 1 + seed % 4u);
    b.ref.bucket_mask = 0;
    b.disk.slow = seed % 3u;
    std::vector<u64> wrong(warps);
    const auto outcome = b.run<read_write>(warps, seed, [&](read_write& cache) {
        array_view<u64, read_write> array(cache, 0, 7 * page_words);
        const u64 own = (4u + warp_number()) * page_words;
        for (u64 step = 0; step < 10; ++step) {
            const u64 drawn = mixed(seed << 20 ^ step << 8 ^ warp_number());
            const u64 at = (drawn + port::lane() % 2u) % 4u * page_words + port::lane();
            if (port::lane() == step % 32u) {
                (void)array.store(this_thread(), optional<u64>(own), step);
            }
            const bool mine = array[own] == step, theirs = array[at] == mixed(at);
            count(wrong[warp_number()], this_warp().ballot(!mine || !theirs) != 0);
        }
    });
    if (expect_done(outcome)) {
        CHECK(std::accumulate(wrong.begin(), wrong.end(), 0ull) == 0);
        CHECK(b.pins() == 0 && b.report.error_status == 0);
    }
}

// A warp's call for one page is one hit or one miss, whichever of its lanes find it at once.
inline void counted_once(u64 seed) {
    constexpr u32 warps = 3, steps = 10;
    fixture b(4, 2);
    const auto outcome = b.run<read_write>(warps, seed, [&](read_write& cache) {
        array_view<u64, read_write> array(cache, 0, 4 * page_words);
        for (u64 step = 0; step < steps; ++step) {
            (void)array[mixed(seed << 8 ^ step) % 4u * page_words + port::lane()];
        }
    });
    if (expect_done(outcome)) {
        CHECK(b.report.hits + b.report.misses == warps * steps);
    }
}

template <u32 Lines> void words_at(u64 seed) { random_words<read_write>(seed, Lines, 0, 3, 16); }
// Elements that begin at any byte.
inline void straddling(u64 seed) { random_words<read_write>(seed, 7, 3 + seed % 7u, 2, 8); }

// Every policy does as well; pages that are kept are read once.
inline void policies(u64 seed) {
    random_words<with_policy<fifo>>(seed, 7, 0, 2, 8);
    random_words<with_policy<sampled_lru<4>>>(seed, 7, 0, 2, 8);
    fixture b(32, 6);
    b.ref.kept_first = 3, b.ref.kept_pages = 2;
    const auto outcome = b.run<with_policy<pinned_set<>>>(1, seed, [&](auto& cache) {
        for (u64 page = 0; page < 96; ++page) {
            (void)cache.acquire(this_warp(), page % 32u);
        }
    });
    if (expect_done(outcome)) {
        CHECK(b.disk.reads[3] == 1 && b.disk.reads[4] == 1 && b.disk.reads[5] == 3);
    }
}

// What a warp stored before its flush lies on the SSD after it, whoever else stores to the page and flushes.
inline void flushed(u64 seed) {
    fixture b(4, 2);
    std::vector<u64> missing(4), failures(4);
    const auto outcome = b.run<read_write>(4, seed, [&](read_write& cache) {
        const u32 me = warp_number();
        for (u64 step = 1; step <= 12; ++step) {
            const u64 number = (step + me) % 3u, value = step << 8 | me;
            auto page = cache.acquire(this_warp(), number);
            count(failures[me], !page);
            if (page && port::lane() == 0) {
                port::store_relaxed_gpu(page.template writable<u64>() + me, value);
            }
            page.release();
            count(failures[me], !cache.flush(this_warp()).ok());
            count(missing[me], port::load_relaxed_gpu(&b.disk.words[number * page_words + me]) != value);
        }
    });
    if (expect_done(outcome)) {
        CHECK(std::accumulate(failures.begin(), failures.end(), 0ull) == 0);
        CHECK(std::accumulate(missing.begin(), missing.end(), 0ull) == 0);
        CHECK(b.disk.flushes == 48);
    }
}

template <class Cache> status hold_all(Cache& cache, u64 page) {
    const auto guard = cache.acquire(this_warp(), page, 100000);
    if (page == cache.lines() || !guard) {
        return page == cache.lines() ? guard.result() : status(code::mismatch);
    }
    return hold_all(cache, page + 1u);
}

// A warp that holds every line and wants one more is told so; afterwards there is room again.
inline void crowded(u64 seed) {
    fixture b(8, 3);
    status said, after;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        note(said, hold_all(cache, 0));
        note(after, cache.acquire(this_warp(), 7).result());
    });
    if (expect_done(outcome)) {
        CHECK(said.is(code::no_room));
        CHECK(after.ok() && b.pins() == 0);
    }
}

// A line that has more pins than 16 bits count is nobody else's, and free again when they are gone.
inline void many_pins(u64) {
    fixture b(4, 1);
    constexpr u32 pins = 1u << 16;
    u32 held = 0;
    status said, after;
    const auto outcome = b.run<read_write>(1, 0, [&](read_write& cache) {
        if (port::lane() != 0) {
            return;
        }
        u32 line = cache_lines::none;
        for (u32 n = 0; n < pins; ++n) {
            held += cache.hold(this_thread(), 2, line, 0).ok();
        }
        said = cache.acquire(this_thread(), 3, 10000).result();
        for (u32 n = 0; n < pins; ++n) {
            cache.drop(true, line, false);
        }
        after = cache.acquire(this_thread(), 3).result();
    });
    if (expect_done(outcome)) {
        CHECK(held == pins && b.disk.reads[2] == 1);
        CHECK(said.is(code::no_room));
        CHECK(after.ok() && b.pins() == 0);
    }
}

// A page that cannot be read is an answer to all who want it, and read again by the next.
inline void unreadable(u64 seed) {
    fixture b(8, 4);
    b.disk.faults[2] = fault::unreadable;
    std::vector<u32> said(8);
    const auto ask = [&](read_write& cache) {
        note(said[warp_number()], cache.acquire(this_warp(), 2).result().bits);
    };
    if (expect_done(b.run<read_write>(8, seed, ask))) {
        CHECK(std::count(said.begin(), said.end(), 0x281u) == 8);
    }
    b.disk.faults[2] = fault::none;
    if (expect_done(b.run<read_write>(8, seed, ask))) {
        CHECK(std::count(said.begin(), said.end(), 0u) == 8 && b.pins() == 0);
    }
}

// A page that cannot be written stays, and is found; the report and a flush say so; a later flush writes it.
inline void unwritable(u64 seed) {
    fixture b(16, 4);
    b.disk.faults[2] = fault::unwritable;
    u32 failures = 0;
    u64 found = 0;
    status first, second;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        auto page = cache.acquire(this_warp(), 2);
        page.template writable<u64>()[port::lane()] = 77;
        page.release();
        for (u64 other = 3; other < 16; ++other) {
            const auto guard = cache.acquire(this_warp(), other);
            count(failures, !guard);
        }
        note(found, cache.acquire(this_warp(), 2).template data<u64>()[7]);
        note(first, cache.flush(this_warp()));
        note(b.disk.faults[2], fault::none);
        this_warp().sync();
        note(second, cache.flush(this_warp()));
    });
    if (expect_done(outcome)) {
        CHECK(failures == 0 && found == 77 && b.disk.reads[2] == 1);
        CHECK(b.report.error_status == 0x280 && b.report.error_page == 2);
        CHECK(first.bits == 0x280 && second.ok());
        CHECK(b.disk.words[2 * page_words + 7] == 77);
    }
}

// Memory that the SSD may still write is never another page's.
inline void silent(u64 seed) {
    fixture b(16, 4);
    b.disk.faults[2] = fault::silent;
    u64 wrong = 0;
    status said;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        note(said, cache.acquire(this_warp(), 2).result());
        for (u64 number = 3; number < 40; ++number) {
            const u64 other = 3 + number % 12u;
            const auto page = cache.acquire(this_warp(), other);
            // Time for the SSD to do what it was asked long ago.
            b.disk.scribble();
            count(wrong, !page || page.template data<u64>()[0] != mixed(other * page_words));
        }
    });
    if (expect_done(outcome)) {
        CHECK(said.is(code::timed_out));
        CHECK(wrong == 0);
    }
}

inline void refusals(u64 seed) {
    fixture b(4, 2);
    status behind, element, stored;
    bool writable = true;
    const auto outcome = b.run<read_only>(1, seed, [&](read_only& cache) {
        note(behind, cache.acquire(this_warp(), 4).result());
        array_view<u32, read_only> array(cache, 0, 10);
        u32 value = 5;
        note(element, array.try_load(this_warp(), optional<u64>(10), value));
        note(stored, array.store(this_warp(), optional<u64>(port::lane() % 10u), 1));
        note(writable, cache.acquire(this_warp(), 1).template writable<u64>() != nullptr);
    });
    if (expect_done(outcome)) {
        CHECK(behind.is(code::out_of_range));
        CHECK(element.is(code::out_of_range));
        CHECK(stored.is(code::read_only) && !writable);
    }
}

// The policy is told of a word that is read without a pin: by the mark, or by
// the time.
inline void hot_word(u64 seed) {
    u32 marked = 0, stamped = 0;
    fixture by_mark(1, 1), by_time(1, 1);
    const auto read = [](auto& cache) {
        array_view<u64, std::remove_reference_t<decltype(cache)>> array(cache, 0, page_words);
        return array[port::lane()];
    };
    const auto clock = by_mark.run<read_write>(1, seed, [&](read_write& cache) {
        (void)cache.acquire(this_warp(), 0);
        warpbell_cache_line& line = by_mark.lines[0];
        this_warp().sync();
        if (port::lane() == 0) {
            (void)port::cas_relaxed_gpu(&line.state, line.state, line.state & ~line_bits::used);
        }
        this_warp().sync();
        (void)read(cache);
        this_warp().sync();
        note(marked, line_bits::is_used(port::load_relaxed_gpu(&line.state)));
    });
    const auto lru = by_time.run<with_policy<sampled_lru<>>>(1, seed, [&](auto& cache) {
        (void)cache.acquire(this_warp(), 0);
        if (port::lane() == 0) {
            __atomic_add_fetch(&by_time.now, 1u << 30, __ATOMIC_RELAXED);
        }
        this_warp().sync();
        (void)read(cache);
        this_warp().sync();
        note(stamped,
             port::load_relaxed_gpu(&by_time.lines[0].stamp) >= (1u << 30) >> cache_lines::time_shift);
    });
    if (expect_done(clock) && expect_done(lru)) {
        CHECK(marked == 1);
        CHECK(stamped == 1);
    }
}

// An element that ends behind the last page is refused before a part of it is stored.
inline void ends(u64 seed) {
    fixture b(4, 2);
    status last, behind;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        array_view<u64, read_write> array(cache, 3, 4 * page_words);
        const auto store = [&](u64 index) {
            return array.store(this_warp(), port::lane() == 0 ? optional<u64>(index) : nullopt, ~0ull);
        };
        note(last, store(4 * page_words - 2));
        (void)cache.flush(this_warp());
        note(behind, store(4 * page_words - 1));
    });
    if (expect_done(outcome)) {
        const auto dirty = [](const warpbell_cache_line& line) { return line_bits::is_dirty(line.state); };
        CHECK(last.ok() && behind.is(code::out_of_range));
        CHECK(std::none_of(b.lines.begin(), b.lines.end(), dirty));
    }
}

// Of a cache that does not fit, lanes that ask for nothing get success.
inline void unfit(u64 seed) {
    fixture b(4, 2);
    u32 unlike = 0;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write&) {
        const warpbell_cache_ref other = {};
        read_write cache(this_warp(), other, b.disk, span());
        array_view<u64, read_write> array(cache, 0, 4 * page_words);
        const bool one = port::lane() == 0;
        const optional<u64> first = one ? optional<u64>(0) : nullopt;
        u64 value = 0;
        const status page = cache.use_each(this_warp(), first, false, [](u8*) {});
        const status element = array.try_load(this_warp(), first, value);
        const bool right =
            one ? page.is(code::invalid_field) && element.is(code::invalid_field) : page.ok() && element.ok();
        const u32 wrong = this_warp().ballot(!right);
        note(unlike, wrong);
    });
    if (expect_done(outcome)) {
        CHECK(unlike == 0);
    }
}

// A line that is used while a policy compares lines is the youngest.
inline void hot_line(u64 seed) {
    fixture b(16, 4);
    const auto outcome = b.run<with_policy<sampled_lru<32>>>(1, seed, [&](auto& cache) {
        for (u64 number = 0; number < 4; ++number) {
            (void)cache.acquire(this_warp(), number);
        }
        for (auto& line : b.lines) {
            if (port::lane() == 0 && line.page == 2) {
                port::store_relaxed_gpu(&line.stamp, cache_lines::now() + 1000u);
            }
        }
        this_warp().sync();
        (void)cache.acquire(this_warp(), 9);
        (void)cache.acquire(this_warp(), 2);
    });
    if (expect_done(outcome)) {
        CHECK(b.disk.reads[2] == 1 && b.report.misses == 5);
    }
}

// A flush whose time is over begins no writes, and says so; what is clean is no reason to.
inline void late_flush(u64 seed) {
    fixture b(16, 8);
    status clean, late, after;
    u64 writes = 0;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        (void)cache.acquire(this_warp(), 0);
        note(clean, cache.flush(this_warp(), 1));
        for (u64 number = 0; number < 4; ++number) {
            auto page = cache.acquire(this_warp(), number);
            page.template writable<u64>()[port::lane()] = number;
        }
        note(late, cache.flush(this_warp(), 1));
        note(writes, std::accumulate(b.disk.writes.begin(), b.disk.writes.end(), 0ull));
        this_warp().sync();
        note(after, cache.flush(this_warp()));
    });
    if (expect_done(outcome)) {
        CHECK(clean.ok() && late.is(code::not_submitted) && writes == 0);
        CHECK(after.ok() && b.report.write_backs == 4);
    }
}

// Pages that are written as a whole are never read.
inline void written_once(u64 seed) {
    fixture b(12, 3);
    const auto outcome = b.run<write_once>(2, seed, [&](write_once& cache) {
        for (u64 number = warp_number(); number < 12; number += 2) {
            auto page = cache.acquire(this_warp(), number);
            page.template writable<u64>()[port::lane()] = number;
        }
        (void)cache.flush(this_warp());
    });
    if (expect_done(outcome)) {
        const u64 reads = std::accumulate(b.disk.reads.begin(), b.disk.reads.end(), 0ull);
        CHECK(reads == 0 && b.disk.words[11 * page_words + 3] == 11 &&
              b.disk.words[11 * page_words + 40] == 0);
    }
}

// Read-modify-writes of a run whose warp looks up four pages so many times, all of them there.
inline u64 cost_of_hits(u64 rounds, bool guarded) {
    fixture b(4, 4);
    const auto outcome = b.run<read_write>(1, 0, [&](read_write& cache) {
        array_view<u64, read_write> array(cache, 0, 4 * page_words);
        for (u64 page = 0; page < 4; ++page) {
            (void)cache.acquire(this_warp(), page);
        }
        const auto held = array.acquire(this_warp(), 0);
        u64 sum = 0;
        for (u64 round = 0; round < rounds; ++round) {
            sum += guarded ? held[port::lane()] : array[port::lane() * 8u];
        }
        CHECK(rounds == 0 || sum != 0);
    });
    expect_done(outcome);
    return outcome.count.rmw;
}

// None for a word, nor through a guard.
inline void hit_costs(u64) {
    const u64 none = cost_of_hits(0, false);
    CHECK(cost_of_hits(100, false) <= none + 4);
    CHECK(cost_of_hits(100, true) == none);
}
