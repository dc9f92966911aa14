// model.h - an SSD as the page cache sees one, and the cache over it: for tests of the cache's rules alone.
//
// An I/O is done by the lane that asked for it, in pieces, with pauses of a drawn length before and between
// them: so two writes may come in either order, and who looks too early sees half a page.
#pragma once

#include <simt/tests/harness.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include <warpbell/array.cuh>
#include <warpbell/prefetch.cuh>

namespace model {

using namespace warpbell;
using namespace warpbell::experimental;

constexpr u32 block_bytes = 512, page_words = block_bytes / 8;

inline u64 mixed(u64 n) {
    n = (n + 1u) * 0x9e3779b97f4a7c15u;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
    return n ^ n >> 27;
}

class span {
  public:
    span() = default;
    span(u64 data, u64 bytes) : data_(data), room_(bytes), bytes_(bytes) {}
    span subspan(u64 offset, u64 bytes) const {
        span part = *this;
        part.offset_ += offset;
        part.bytes_ = bytes;
        return part;
    }
    u64 bytes() const { return bytes_; }
    bool inside() const { return bytes_ <= room_ && offset_ <= room_ - bytes_; }
    template <class T> T* data() const { return reinterpret_cast<T*>(data_ + offset_); }

  private:
    u64 data_ = 0, offset_ = 0, room_ = 0, bytes_ = 0;
};

// What is wrong with a page of the SSD.
enum class fault : u32 { none, unreadable, unwritable, silent, unreadable_once };

// A read that was asked for and that nobody has asked about yet.
struct read_ahead {
    u64 page = 0;
    u64* data = nullptr;
    u32 left = 0; // polls, until it is done
    bool flying = false;
    read_ahead() = default;
    read_ahead(u64 page, u64* data, u32 left) : page(page), data(data), left(left), flying(true) {}
    read_ahead(read_ahead&& other) noexcept { *this = std::move(other); }
    read_ahead& operator=(read_ahead&& other) noexcept {
        page = other.page, data = other.data, left = other.left;
        flying = std::exchange(other.flying, false);
        return *this;
    }
    bool in_flight() const { return flying; }
};

struct ssd {
    std::vector<u64> words;
    std::vector<u32> reads, writes; // of each block
    std::vector<fault> faults;
    u64 late = 0; // where a read that was given up will still write
    u64 draws = 0;
    u64 flushes = 0;
    u64 ahead = 0, most_ahead = 0; // reads that somebody has not asked about, now, and at most
    u32 slow = 8;                  // pauses at most
    bool full = false;             // it takes no such read
    u64 timeout_ns = 50000;        // of one that it does not answer

    explicit ssd(u64 pages) : words(pages * page_words), reads(pages), writes(pages), faults(pages) {
        for (u64 at = 0; at < words.size(); ++at) {
            words[at] = mixed(at);
        }
    }
    u32 block_bytes() const { return model::block_bytes; }

    void delay() {
        const u64 drawn = mixed(port::fetch_add_relaxed_gpu(&draws, 1));
        for (u64 left = slow != 0 ? drawn % slow : 0; left != 0; --left) {
            port::pause();
        }
    }
    // The read that nobody waits for any more.
    void scribble() {
        for (u32 at = 0; late != 0 && at < page_words; ++at) {
            port::store_relaxed_gpu(reinterpret_cast<u64*>(late) + at, ~0ull);
        }
    }
    // Unseen by ThreadSanitizer: an SSD may take a page while others store to it, which makes it dirty again.
    __attribute__((no_sanitize("thread"), noinline)) static void take(const u64* from, u64* to) {
        for (u32 at = 0; at < page_words; ++at) {
            to[at] = *static_cast<const volatile u64*>(from + at);
        }
    }
    status move(opcode op, u64 page, u64* data) {
        const bool reads_it = op == opcode::read;
        if (page >= faults.size()) {
            return status::from_wire(0x281);
        }
        const fault wrong = faults[page];
        port::add_relaxed_gpu(reads_it ? &reads[page] : &writes[page], 1);
        delay();
        scribble();
        if (wrong == fault::silent && reads_it) {
            late = reinterpret_cast<u64>(data);
            return code::timed_out;
        }
        if (wrong == fault::unreadable_once && reads_it) {
            faults[page] = fault::none;
            return status::from_wire(0x281);
        }
        if (wrong == (reads_it ? fault::unreadable : fault::unwritable)) {
            return status::from_wire(reads_it ? 0x281 : 0x280);
        }
        // A write takes the data first, and puts it down later.
        u64 taken[page_words];
        u64* const place = words.data() + page * page_words;
        take(reads_it ? place : data, taken);
        delay();
        for (u32 at = 0; at < page_words; ++at) {
            port::store_relaxed_gpu((reads_it ? data : place) + at, taken[at]);
            if (at == page_words / 2u) {
                delay();
            }
        }
        return status();
    }
    read_ahead start(u64 page, u64* data) {
        const u64 now = port::fetch_add_relaxed_gpu(&ahead, 1) + 1u;
        std::atomic_ref<u64> most(most_ahead);
        for (u64 before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        const u64 drawn = mixed(port::fetch_add_relaxed_gpu(&draws, 1));
        return {page, data, static_cast<u32>(drawn % (slow + 1u))};
    }
    optional<status> try_finish(read_ahead& read, u64 age_ns) {
        if (read.flying && faults[read.page] == fault::silent) {
            return age_ns > timeout_ns && !mutate::prefetch_not_given_up ? give_up(read) : nullopt;
        }
        if (!read.flying || read.left != 0) {
            read.left -= read.left != 0 ? 1u : 0u;
            return nullopt;
        }
        read.flying = false;
        (void)port::fetch_add_relaxed_gpu(&ahead, ~0ull);
        return move(opcode::read, read.page, read.data);
    }
    optional<status> give_up(read_ahead& read) {
        faults[read.page] = fault::none;
        read.flying = false;
        (void)port::fetch_add_relaxed_gpu(&ahead, ~0ull);
        late = reinterpret_cast<u64>(read.data);
        return status(code::timed_out);
    }
};

} // namespace model

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

template <> struct backing<model::ssd> {
    using span_type = model::span;
    static constexpr bool writable = true;
    template <class Group>
    static status move(const Group& group, model::ssd& s, opcode op, optional<extent> where,
                       const model::span& data) {
        const status said = where ? s.move(op, where->start.value, data.data<u64>()) : status();
        group.sync();
        return said;
    }
    template <class Group> static status refusal(const Group&, model::ssd&) { return status(); }
    template <class Group> static status flush(const Group& group, model::ssd& s) {
        if (group.is_leader()) {
            port::add_relaxed_gpu(&s.flushes, static_cast<u64>(1));
        }
        return status();
    }
    using token_type = model::read_ahead;
    static bool may_start(const model::ssd&, extent) { return true; }
    template <class Group>
    static token_type start(const Group& group, model::ssd& s, optional<extent> where,
                            const model::span& data) {
        group.sync();
        return where && !s.full ? s.start(where->start.value, data.data<u64>()) : token_type();
    }
    template <class Group>
    static optional<status> try_finish(const Group& group, model::ssd& s, token_type& token, u64 age_ns) {
        const optional<status> said = s.try_finish(token, age_ns);
        group.sync();
        return said;
    }
    template <class Group> static status finish(const Group& group, model::ssd& s, token_type&& token, u64) {
        status result;
        for (optional<status> said; token.in_flight() && !said; port::pause()) {
            said = s.try_finish(token, ~0ull);
            result = said ? *said : result;
        }
        group.sync();
        return result;
    }
};

} // namespace detail
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

namespace model {

// OS threads that a launch runs on. With one a run is the same each time.
inline u32 threads = 1;
// Steps after which a launch on one thread will not end any more.
constexpr u64 most_steps = 20000;

// An SSD, the memory of a cache, and launches over them.
struct fixture {
    explicit fixture(u64 pages, u32 lines)
        : disk(pages), lines(lines), buckets(std::bit_ceil(lines)), data(lines * page_words) {
        ref.abi_version = WARPBELL_ABI_VERSION;
        ref.size = sizeof ref;
        ref.lines = reinterpret_cast<u64>(this->lines.data());
        ref.buckets = reinterpret_cast<u64>(buckets.data());
        ref.report = reinterpret_cast<u64>(&report);
        ref.pages = pages;
        ref.timeout_ns = 1000000000;
        ref.line_count = lines;
        ref.bucket_mask = static_cast<u32>(buckets.size()) - 1u;
        ref.page_shift = 9;
    }

    template <class Cache, class Body> harness::Outcome run(u32 warps, u64 seed, const Body& body) {
        wb_simt_launch launch = harness::shape(warps, 32, seed);
        launch.store_buffer = seed != 0 && threads == 1 ? 8 : 0; // several have none
        launch.stack_bytes = 64 << 10;
        launch.hooks.context = this;
        // 100 ns each time that somebody polls.
        launch.hooks.clock_ns = [](void* context) {
            return __atomic_add_fetch(&static_cast<fixture*>(context)->now, 100, __ATOMIC_RELAXED);
        };
        const auto kernel = [&] {
            Cache cache(this_warp(), ref, disk,
                        span(reinterpret_cast<u64>(data.data()), data.size() * sizeof(u64)));
            body(cache);
            cache.detach(this_warp());
        };
        if (threads == 1) {
            return harness::run(launch, kernel, most_steps);
        }
        harness::Outcome worst = {};
        for (const harness::Outcome& each : harness::run_threads(launch, threads, kernel)) {
            const u64 rmw = worst.count.rmw + each.count.rmw;
            worst = each.state >= worst.state ? each : worst;
            worst.count.rmw = rmw; // of all threads
        }
        return worst;
    }
    // The pins of all lines; 0 after a launch.
    u64 pins() const {
        u64 sum = 0;
        for (const warpbell_cache_line& line : lines) {
            sum += line.state & 0xffffffffu;
        }
        return sum;
    }

    ssd disk;
    std::vector<warpbell_cache_line> lines;
    std::vector<u64> buckets;
    std::vector<u64> data;
    warpbell_cache_report report = {};
    warpbell_cache_ref ref = {};
    u64 now = 0;
};

using read_write = page_cache<ssd>;
template <class Policy> using with_policy = page_cache<ssd, page_access::read_write, Policy>;
using read_only = page_cache<ssd, page_access::read_only>;
using write_once = page_cache<ssd, page_access::write_once>;
template <u32 Cap = 8, u32 Streams = 4> using reads_ahead = prefetcher<read_write, Cap, Streams>;

} // namespace model
