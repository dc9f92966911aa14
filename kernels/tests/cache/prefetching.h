// prefetching.h - rules of the prefetcher: what it reads, what it leaves alone, and what it counts.
#pragma once

#include "scenarios.h"

// A warp uses pages of a cache of so many lines, one after the other, by a prefetcher of its own. Returns how
// many it found wrong, or was refused.
template <class Ahead, class Pages> u64 use_pages(fixture& b, u32 warps, u64 seed, u64 count, Pages page_of) {
    std::vector<u64> wrong(warps * 32u);
    const auto outcome = b.run<read_write>(warps, seed, [&](read_write& cache) {
        Ahead ahead(this_warp(), cache);
        for (u64 step = 0; step < count; ++step) {
            const u64 number = page_of(warp_number(), step), at = port::lane() * 2u;
            const auto page = ahead.acquire(this_warp(), number);
            const u64 found = page ? page.template data<u64>()[at] : 0;
            const u32 bad = this_warp().ballot(found != mixed(number * page_words + at));
            wrong[thread_number()] += port::lane() == 0 && bad != 0;
        }
        ahead.detach(this_warp());
    });
    return expect_done(outcome) ? std::accumulate(wrong.begin(), wrong.end(), 0ull) : ~0ull;
}

inline bool counts_add_up(const fixture& b) {
    return b.report.prefetched == b.report.prefetched_used + b.report.prefetched_in_vain && b.pins() == 0 &&
           b.disk.ahead == 0;
}

// Sequences, forwards, with a stride, backwards, and two at a time, are read ahead; each page once.
inline void sequences(u64 seed) {
    using order = u64 (*)(u32, u64);
    const order orders[] = {
        [](u32, u64 step) { return step; },
        [](u32, u64 step) { return step * 3u; },
        [](u32, u64 step) { return 149u - step * 2u; },
        [](u32, u64 step) { return step % 2u * 70u + step / 2u * (1u + step % 2u); },
    };
    for (const order each : orders) {
        fixture b(150, 40);
        CHECK(use_pages<reads_ahead<>>(b, 1, seed, 50, each) == 0);
        CHECK(b.report.hits + b.report.misses == 50 && b.report.misses <= 6);
        CHECK(b.report.prefetched_used == b.report.hits && counts_add_up(b));
        CHECK(*std::max_element(b.disk.reads.begin(), b.disk.reads.end()) == 1);
    }
}

// Never more than the cap, although there would be lines for more.
inline void capped(u64 seed) {
    fixture b(100, 60);
    CHECK(use_pages<reads_ahead<4>>(b, 1, seed, 60, [](u32, u64 step) { return step; }) == 0);
    CHECK(b.disk.most_ahead <= 4 && b.disk.most_ahead >= 2 && counts_add_up(b));
}

// Pages in no order are hardly ever read ahead, and ever less.
inline void disorder(u64 seed) {
    fixture b(40, 24);
    CHECK(use_pages<reads_ahead<>>(b, 1, seed, 400,
                                   [&](u32, u64 step) { return mixed(seed << 32 ^ step) % 40u; }) == 0);
    CHECK(b.report.prefetched_in_vain < 40 && counts_add_up(b));
}

// Several warps that use the same pages, by prefetchers, with a cache that is too small for them.
inline void shared_pages(u64 seed) {
    fixture b(64, 6);
    CHECK(use_pages<reads_ahead<>>(b, 4, seed, 40, [](u32 warp, u64 step) { return step + warp; }) == 0);
    CHECK(counts_add_up(b));
}

// Two warps each want a page that the other reads ahead: nobody waits in vain.
inline void crossed(u64 seed) {
    fixture b(64, 20);
    b.ref.timeout_ns = 2000000;
    b.disk.slow = 60;
    std::vector<u64> refused(2 * 32);
    const auto outcome = b.run<read_write>(2, seed, [&](read_write& cache) {
        reads_ahead<> ahead(this_warp(), cache);
        for (u64 round = 0; round < 4; ++round) {
            const u64 first = 16u * round + 8u * warp_number(),
                      other = 16u * round + 8u * (1u - warp_number());
            (void)ahead.prefetch(this_warp(), first, 4);
            const status said = ahead.acquire(this_warp(), other + 1u).result();
            refused[thread_number()] += !said.ok();
        }
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        CHECK(std::count(refused.begin(), refused.end(), 0u) == 64 && counts_add_up(b));
    }
}

// For long enough that all is there.
template <class Ahead> void collect_all(Ahead& ahead) {
    for (u32 polls = 0; polls < 40; ++polls) {
        ahead.collect(this_warp());
    }
}

// What is named is read, so far as there are lines that nobody wants: not those of pages that are dirty,
// pinned, or read ahead by others.
inline void modest(u64 seed) {
    fixture b(32, 8);
    u32 first = 0, second = 0;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        for (u64 number = 0; number < 3; ++number) {
            auto page = cache.acquire(this_warp(), number);
            page.template writable<u64>()[port::lane()] = 7;
        }
        const auto held = cache.acquire(this_warp(), 3);
        reads_ahead<8, 0> one(this_warp(), cache), other(this_warp(), cache);
        const u32 some = one.prefetch(this_warp(), 10, 3); // of four lines
        collect_all(one);
        const u32 more = other.prefetch(this_warp(), 20, 2);
        if (port::lane() == 0) {
            first = some, second = more;
        }
        for (u64 number = 10; number < 13; ++number) {
            (void)one.acquire(this_warp(), number);
        }
        (void)cache.flush(this_warp());
        one.detach(this_warp());
        other.detach(this_warp());
    });
    if (expect_done(outcome)) {
        CHECK(first == 3 && second == 1 && b.report.prefetch_skipped == 1);
        CHECK(b.report.prefetched_used == 3 && b.report.prefetched_in_vain == 1 && counts_add_up(b));
        CHECK(b.disk.words[2 * page_words + 5] == 7 && b.disk.reads[0] == 1);
    }
}

// Slots of named pages that nobody comes for are free again after a while, and those of pages that others
// used at once.
inline void slots_again(u64 seed) {
    fixture b(64, 48);
    u32 after_a_while = 0, at_once = 0;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        reads_ahead<2, 0> one(this_warp(), cache), other(this_warp(), cache);
        (void)one.prefetch(this_warp(), 10, 2);
        collect_all(one);
        for (u64 number = 20; number < 40; ++number) {
            (void)one.acquire(this_warp(), number);
        }
        note(after_a_while, one.prefetch(this_warp(), 50, 2));
        (void)other.prefetch(this_warp(), 52, 2);
        collect_all(other);
        (void)cache.acquire(this_warp(), 52);
        (void)cache.acquire(this_warp(), 53);
        note(at_once, other.prefetch(this_warp(), 54, 2));
        one.detach(this_warp());
        other.detach(this_warp());
    });
    if (expect_done(outcome)) {
        CHECK(after_a_while == 2 && at_once == 2);
        CHECK(b.report.prefetched == 8 && b.report.prefetched_used == 2 && counts_add_up(b));
    }
}

// A read ahead that the SSD never answers is given up by its warp's next call after the deadline: another
// warp that waits for the page reads it, into another line.
inline void unanswered(u64 seed) {
    fixture b(16, 8);
    b.ref.timeout_ns = 2000000;
    b.disk.faults[5] = fault::silent;
    u64 begun = 0, done = 0, wrong = 0;
    status said;
    const auto outcome = b.run<read_write>(2, seed, [&](read_write& cache) {
        reads_ahead<> ahead(this_warp(), cache);
        if (warp_number() == 0) {
            (void)ahead.prefetch(this_warp(), 5, 1);
            port::store_release_gpu(&begun, 1ull);
            while (this_warp().ballot(port::load_relaxed_gpu(&done) == 0) != 0) {
                ahead.collect(this_warp());
                port::pause();
            }
            b.disk.scribble();
        } else {
            while (this_warp().ballot(port::load_relaxed_gpu(&begun) == 0) != 0) {
                port::pause();
            }
            {
                const auto page = ahead.acquire(this_warp(), 5);
                note(said, page.result());
                const u64 found = page ? page.template data<u64>()[port::lane()] : 0;
                const u32 bad = this_warp().ballot(found != mixed(5 * page_words + port::lane()));
                count(wrong, bad != 0);
            }
            port::store_release_gpu(&done, 1ull);
        }
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        const auto stuck = [](const warpbell_cache_line& line) {
            return (line.state & line_bits::stuck) != 0;
        };
        CHECK(said.ok() && wrong == 0);
        CHECK(std::count_if(b.lines.begin(), b.lines.end(), stuck) == 1 && counts_add_up(b));
    }
}

// A page that could not be read ahead is not there, and who waited for it reads it, and is told for himself.
inline void read_in_vain(u64 seed) {
    fixture b(16, 8);
    b.disk.faults[5] = fault::unreadable_once;
    std::vector<u32> said(3);
    std::vector<u64> wrong(3 * 32);
    u64 begun = 0;
    const auto outcome = b.run<read_write>(3, seed, [&](read_write& cache) {
        reads_ahead<> ahead(this_warp(), cache);
        if (warp_number() == 0) {
            (void)ahead.prefetch(this_warp(), 4, 3);
            port::store_release_gpu(&begun, 1ull);
        }
        while (port::load_relaxed_gpu(&begun) == 0) {
            port::pause();
        }
        const auto page = ahead.acquire(this_warp(), 5);
        const u64 found = page ? page.template data<u64>()[port::lane()] : 0;
        wrong[thread_number()] += page && found != mixed(5 * page_words + port::lane());
        if (port::lane() == 0) {
            said[warp_number()] = page.result().bits;
        }
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        CHECK(std::count(said.begin(), said.end(), 0u) == 3 &&
              std::count(wrong.begin(), wrong.end(), 0u) == 96 && counts_add_up(b));
        CHECK(b.report.error_status == 0);
    }
}

// What a warp leaves behind when it goes: no line that is on its way, and no mark on one.
inline void left_behind(u64 seed) {
    fixture b(32, 16);
    b.disk.slow = 200;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        reads_ahead<> ahead(this_warp(), cache);
        (void)ahead.acquire(this_warp(), 20);
        (void)ahead.prefetch(this_warp(), 3, 6);
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        const auto at_rest = [](const warpbell_cache_line& line) {
            return line_bits::phase_of(line.state) != line_phase::loading &&
                   (line.state & line_bits::ahead) == 0;
        };
        CHECK(std::all_of(b.lines.begin(), b.lines.end(), at_rest));
        CHECK(b.report.prefetched == 6 && b.report.prefetched_in_vain == 6 && counts_add_up(b));
    }
}

// A queue without room: pages are read when they are wanted.
inline void no_room_ahead(u64 seed) {
    fixture b(64, 16);
    b.disk.full = true;
    CHECK(use_pages<reads_ahead<>>(b, 1, seed, 20, [](u32, u64 step) { return step; }) == 0);
    CHECK(b.report.prefetched == 0 && b.report.prefetch_skipped > 0 && b.report.misses == 20);
    CHECK(counts_add_up(b));
}

// Pages of a sequence that ends, and pages that others use for whom they were not read.
inline void useless(u64 seed) {
    fixture b(64, 32);
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        reads_ahead<8> ahead(this_warp(), cache);
        for (u64 number = 0; number < 5; ++number) {
            (void)ahead.acquire(this_warp(), number); // windows of 2, 4 and 8 pages behind 2, 3 and 4
        }
        collect_all(ahead);
        (void)cache.acquire(this_warp(), 5); // by the cache itself
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        // 3 and 4 by the sequence, and 5 as the policy notes.
        CHECK(b.report.prefetched_used == 3 && b.report.misses == 3 && counts_add_up(b));
        CHECK(b.report.prefetched_in_vain == b.report.prefetched - 3u && b.report.prefetched >= 9);
    }
}

// No page behind the last is read, nor read ahead for.
inline void refused_ahead(u64 seed) {
    fixture b(8, 4);
    status behind, last;
    const auto outcome = b.run<read_write>(1, seed, [&](read_write& cache) {
        reads_ahead<> ahead(this_warp(), cache);
        note(behind, ahead.use_each(this_warp(), optional<u64>(8), false, [](u8*) {}));
        note(last, ahead.use_each(this_warp(), optional<u64>(7), false, [](u8*) {}));
        ahead.detach(this_warp());
    });
    if (expect_done(outcome)) {
        CHECK(behind.is(code::out_of_range) && last.ok());
        CHECK(b.pins() == 0);
    }
}

// Read-modify-writes of a run whose warp uses one page, and a few others, so many times by a prefetcher.
inline u64 cost_of_hits_ahead(u64 rounds) {
    fixture b(8, 8);
    const auto outcome = b.run<read_write>(1, 0, [&](read_write& cache) {
        for (u64 page = 0; page < 8; ++page) {
            (void)cache.acquire(this_warp(), page);
        }
        reads_ahead<> ahead(this_warp(), cache);
        array_view<u64, reads_ahead<>> array(ahead, 0, 8 * page_words);
        u64 sum = 0;
        for (u64 round = 0; round < rounds; ++round) {
            sum += array[port::lane()] + array[port::lane() * 8u];
        }
        ahead.detach(this_warp());
        CHECK(rounds == 0 || sum != 0);
    });
    expect_done(outcome);
    return outcome.count.rmw;
}

// As many as without one: two for each page of a warp's call.
inline void hit_costs_ahead(u64) { CHECK(cost_of_hits_ahead(101) - cost_of_hits_ahead(1) == 100 * 5 * 2); }
