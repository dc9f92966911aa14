// The lines of a page cache, and the hash table that finds them. Each call here is one lane's.
//
// The state of a line is one word. Its phase is changed only by the lane that owns the line, its pins by
// everybody, so that every change is an addition, or a compare-and-swap of the whole word; but for the mark
// `used`, which is also set by an OR, and neither added nor taken away:
//
//   empty ──claim──► leaving ──give──► loading ──► ready ──claim──► leaving ──give──► loading ..
//                       └─── its page could not be written: ready again ───┘
//                                         └──► failed ──claim──► leaving (of no page)
//
// A line is claimed only without pins, so a pin on a line that is loading or ready keeps its page there. Pins
// are added before the phase is looked at; whoever finds the line leaving, or another page in it, takes the
// pin back.
//
// A word of a ready page is read without a pin, as with a sequence lock: the state is loaded before and
// after, and what was read in between counts if the line was ready both times, in one generation. `give`
// begins a generation before anything of the next page comes.
//
// A bucket is one word: its first line, a lock for the links of its lines, held for some instructions only,
// and the bit `missing`. Lookups follow the links without the lock: a line that is moved meanwhile may lead
// them into another bucket, and they find nothing. Who finds nothing looks again under the lock, and sets
// `missing` where there is nothing indeed: as long as it is set nobody else adds a page to this bucket. So a
// page is read once, however many warps want it, and only one line is emptied for it. `missing` may stay set
// for as long as a write-back takes; nobody waits for it with anything in hand.
#pragma once

#include "../abi_cache.h"
#include "../status.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

enum class line_phase : u32 { empty, loading, ready, leaving, failed };

// The state word.
struct line_bits {
    // A guard takes more than a byte of its warp's memory: no GPU has room for the 2^32 that would overflow.
    static constexpr u64 pin = 1, all_pins = mutate::cache_pins_cut ? 0xffff : 0xffffffff;
    static constexpr u32 phase_shift = 32;
    static constexpr u64 phases = 7ull << phase_shift;
    static constexpr u64 dirty = 1ull << 40;   // the SSD has something older
    static constexpr u64 writing = 1ull << 41; // a flush writes it
    static constexpr u64 used = 1ull << 42;    // since the policy looked
    static constexpr u64 held = 1ull << 43;    // it could not be written; a flush tries again
    static constexpr u64 stuck = 1ull << 44;   // an SSD may still use its memory: never another page's
    static constexpr u64 ahead = 1ull << 45;   // read ahead, for a warp that has not used it yet
    static constexpr u64 generation = 1ull << 48, generations = 0xffffull << 48;

    WARPBELL_D static line_phase phase_of(u64 state) {
        return static_cast<line_phase>(state >> phase_shift & 7u);
    }
    WARPBELL_D static u64 of(line_phase phase) { return static_cast<u64>(phase) << phase_shift; }
    WARPBELL_D static u32 generation_of(u64 state) { return static_cast<u32>(state / generation); }
    WARPBELL_D static bool is_used(u64 state) { return (state & used) != 0; }
    WARPBELL_D static bool is_dirty(u64 state) { return (state & dirty) != 0; }
    // The SSD has something older, or has it still: somebody writes the page.
    WARPBELL_D static bool is_unwritten(u64 state) { return (state & (dirty | writing)) != 0; }
    // Whether it may be claimed.
    WARPBELL_D static bool is_open(u64 state) {
        const line_phase phase = phase_of(state);
        const u64 pins = mutate::cache_pinned_taken ? 0 : all_pins;
        const u64 kept = held | writing | (mutate::cache_stuck_taken ? 0 : stuck);
        return (state & (pins | kept)) == 0 && phase != line_phase::loading && phase != line_phase::leaving;
    }
    // Whether a page that nobody waits for may have it: not at the price of a write, nor of a page that
    // somebody has read ahead, too.
    WARPBELL_D static bool is_open_ahead(u64 state) {
        const u64 kept =
            (mutate::prefetch_takes_dirty ? 0 : dirty) | (mutate::prefetch_takes_ahead ? 0 : ahead);
        const bool taken = mutate::prefetch_takes_loading && phase_of(state) == line_phase::loading;
        return (is_open(state) && (state & kept) == 0) || taken;
    }
};

class cache_lines {
  public:
    static constexpr u32 none = ~0u;

    WARPBELL_D explicit cache_lines(const warpbell_cache_ref& ref) : ref_(ref) {}

    WARPBELL_D const warpbell_cache_ref& ref() const { return ref_; }
    WARPBELL_D u32 count() const { return ref_.line_count; }
    WARPBELL_D u64 state(u32 line) const { return port::load_relaxed_gpu(&at(line)->state); }
    WARPBELL_D bool is_used(u32 line) const { return line_bits::is_used(state(line)); }
    WARPBELL_D u64 page(u32 line) const { return port::load_relaxed_gpu(&at(line)->page); }
    WARPBELL_D u32 stamp(u32 line) const { return port::load_relaxed_gpu(&at(line)->stamp); }
    // Of a line that was seen to have failed, by one who has a pin on it. Acquire: the status lies there
    // since before the phase said so.
    WARPBELL_D status error(u32 line) const {
        (void)port::load_acquire_gpu(&at(line)->state);
        return status::from_bits(port::load_relaxed_gpu(&at(line)->error));
    }
    WARPBELL_D warpbell_cache_report* report() const {
        return reinterpret_cast<warpbell_cache_report*>(ref_.report);
    }

    // ---- for policies

    // The next line in turn.
    WARPBELL_D u32 turn_hand() const {
        // Of 32 bits: where those overflow, it goes on elsewhere; still each line is named within two calls
        // for each.
        return static_cast<u32>(port::fetch_add_relaxed_gpu(&report()->hand, 1)) % ref_.line_count;
    }
    // Line `number` of a sequence without a pattern.
    WARPBELL_D u32 drawn(u64 number) const {
        return static_cast<u32>(port::multiply_high(mixed(number), ref_.line_count));
    }
    WARPBELL_D bool is_kept(u32 line) const { return page(line) - ref_.kept_first < ref_.kept_pages; }
    // False: the state has changed.
    WARPBELL_D bool clear_used(u32 line, u64 state) const {
        return port::cas_relaxed_gpu(&at(line)->state, state, state & ~line_bits::used) == state;
    }
    // About microseconds.
    static constexpr u32 time_shift = 10;
    WARPBELL_D static u32 now() { return static_cast<u32>(port::clock_ns() >> time_shift); }

    // ---- looking up

    enum class found : u32 {
        nothing,
        ready,
        loading, // pinned like `ready`; somebody reads it
        busy,    // somebody else does something about it
        ours,
    };
    // Pins the line that has the page, if one is found. `used`: it was marked so by then; as long as the line
    // is pinned, no policy takes that mark off.
    WARPBELL_D found find_and_pin(u64 page, u32& line, bool& used) const;
    // The same, apart from the code of a hit.
    WARPBELL_NOINLINE found find_and_pin_apart(u64 page, u32& line) const {
        bool used = false;
        return find_and_pin(page, line, used);
    }
    template <class Policy> WARPBELL_NOINLINE void unpin_apart(u32 line) const {
        unpin<Policy>(line, false, false);
    }
    // Releases a pin. `stored`: the page was changed. `used`: it was marked so when it was pinned.
    template <class Policy> WARPBELL_D void unpin(u32 line, bool stored, bool used) const;

    // ---- a word of a page, without a pin

    // The line that it was read from, or none, and the state of that before.
    struct sighting {
        u32 line = none;
        u64 state = 0;
    };
    // Reads from the line that has the page, if it is ready. `place`: of the word, if line 0 had its page.
    // What was read counts if `holds`, after a fence of the caller's.
    template <class Word> WARPBELL_D sighting read(u64 page, const u8* place, Word& word) const;
    // Whether the line has had its page, ready, since before. It would have to get another page 65,536 times
    // meanwhile for the two generations to look alike.
    WARPBELL_D bool holds(const sighting& seen) const {
        const u64 changed = state(seen.line) ^ seen.state;
        return (changed & (line_bits::phases | line_bits::generations)) == 0 || mutate::cache_word_unchecked;
    }
    template <class Policy> WARPBELL_D void note_use(const sighting& seen) const;

    // ---- a page that is not there

    // ours: nobody else adds a page to its bucket before `give` or `give_up_miss`.
    WARPBELL_D found begin_miss(u64 page, u32& line) const;
    WARPBELL_D void give_up_miss(u64 page) const;
    // A line for it, leaving; `state`: what it was. `none`: there is none among those that it has looked at,
    // all of a cache of up to 127 lines. `writes`: the caller can write
    // pages that leave, so that it may have a dirty one.
    template <class Policy> WARPBELL_D u32 claim(u64& state, bool writes) const;
    // The line that was in `state` when it was claimed has this page now, is loading, and has our pin; and
    // the marks in `more`.
    WARPBELL_D void give(u32 line, u64 state, u64 page, u64 more = 0) const;
    // The page that it had could not be written.
    WARPBELL_D void keep(u32 line, status why) const;
    WARPBELL_D void settle(u32 line, status read) const;

    // ---- reading ahead

    // A line for a page that nobody waits for.
    template <class Policy> WARPBELL_D u32 claim_ahead(u64& state) const;
    // Ends the read of a line with the mark `ahead`; nobody has a pin on it for that.
    WARPBELL_D void settle_ahead(u32 line, status read) const;
    enum class fate : u32 { gone, unused, used };
    // Takes the mark off a page that came in this generation of the line. What became of it: the line was
    // taken, or nobody has used it so far as the policy notes, or somebody has.
    WARPBELL_D fate end_ahead(u32 line, u32 generation) const;
    // Whether it is there still, and unused.
    WARPBELL_D bool is_ahead(u32 line, u32 generation) const {
        const u64 now = state(line);
        return line_bits::generation_of(now) == generation && (now & line_bits::ahead) != 0 &&
               !line_bits::is_used(now);
    }
    WARPBELL_D u32 generation(u32 line) const { return line_bits::generation_of(state(line)); }
    WARPBELL_D bool has(u64 page) const {
        return find(port::load_relaxed_gpu(bucket_of(page)), page) != none;
    }
    // Releases a pin that was of no use.
    WARPBELL_D void leave(u32 line) const { add(line, 0u - line_bits::pin); }

    // ---- writing without leaving

    enum class writable : u32 { clean, busy, ours, stuck };
    WARPBELL_D writable begin_write(u32 line) const;
    WARPBELL_D void end_write(u32 line, status written) const;

  private:
    static constexpr u32 most_attempts = 256; // of one claim
    static constexpr u64 locked = 1ull << 32, missing = mutate::cache_loaded_twice ? 0 : 1ull << 33;

    WARPBELL_D warpbell_cache_line* at(u32 line) const {
        return reinterpret_cast<warpbell_cache_line*>(ref_.lines) + line;
    }
    WARPBELL_D u64* bucket_of(u64 page) const {
        return reinterpret_cast<u64*>(ref_.buckets) + (mixed(page) & ref_.bucket_mask);
    }
    WARPBELL_D static u64 mixed(u64 n) {
        n = (n + 1u) * 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 32) * 0xd6e8feb86659fd93u;
        return n ^ n >> 32;
    }
    // ---- apart from the code of a hit, one copy of each in a kernel
    WARPBELL_NOINLINE static u64 lock(u64* bucket);
    WARPBELL_NOINLINE u64* bucket_apart(u64 page) const { return bucket_of(page); }
    WARPBELL_NOINLINE static void add_apart(u64* word, u64 more) {
        (void)port::fetch_add_acq_rel_gpu(word, more);
    }
    WARPBELL_NOINLINE void unlink(u32 line) const;

    // Adds to the bucket's word, too.
    WARPBELL_D static void unlock(u64* bucket, u64 more) { add_apart(bucket, more - locked); }
    template <class Policy, class Open> WARPBELL_D u32 claim_open(u64& state, Open open) const;
    WARPBELL_D u32 find(u64 head, u64 page) const;
    WARPBELL_D found pin(u32 line, u64 page, bool& used) const;
    WARPBELL_D void add(u32 line, u64 more) const { port::add_release_gpu(&at(line)->state, more); }
    WARPBELL_D void change(u32 line, u64 set, u64 clear, u64 less) const;

    warpbell_cache_ref ref_;
};

// ---- buckets

WARPBELL_NOINLINE u64 cache_lines::lock(u64* bucket) {
    while (true) {
        const u64 word = port::load_relaxed_gpu(bucket);
        if ((word & locked) == 0 && port::cas_acq_rel_gpu(bucket, word, word | locked) == word) {
            return word;
        }
        port::pause();
    }
}

// Bounded, as without the lock links may change under us.
WARPBELL_D u32 cache_lines::find(u64 head, u64 page) const {
    u32 left = ref_.line_count;
    for (u32 next = static_cast<u32>(head); next != 0; --left) {
        if (this->page(next - 1u) == page) {
            return next - 1u;
        }
        next = left != 0 ? port::load_relaxed_gpu(&at(next - 1u)->next) : 0u;
    }
    return none;
}

WARPBELL_NOINLINE void cache_lines::unlink(u32 line) const {
    u64* const bucket = bucket_apart(page(line));
    const u32 head = static_cast<u32>(lock(bucket));
    const u32 behind = port::load_relaxed_gpu(&at(line)->next);
    u32 before = head;
    if (head == line + 1u) {
        return unlock(bucket, static_cast<u64>(behind) - head);
    }
    while (port::load_relaxed_gpu(&at(before - 1u)->next) != line + 1u) {
        before = port::load_relaxed_gpu(&at(before - 1u)->next);
    }
    port::store_relaxed_gpu(&at(before - 1u)->next, behind);
    unlock(bucket, 0);
}

// ---- pins

WARPBELL_D cache_lines::found cache_lines::pin(u32 line, u64 page, bool& used) const {
    const u64 before = port::fetch_add_acquire_gpu(&at(line)->state, line_bits::pin);
    used = line_bits::is_used(before);
    const line_phase phase = line_bits::phase_of(before);
    const bool here = phase == line_phase::loading || phase == line_phase::ready;
    if (here && (this->page(line) == page || mutate::cache_any_page)) {
        return phase == line_phase::ready ? found::ready : found::loading;
    }
    add_apart(&at(line)->state, 0u - line_bits::pin);
    return found::busy;
}

WARPBELL_D cache_lines::found cache_lines::find_and_pin(u64 page, u32& line, bool& used) const {
    line = find(port::load_relaxed_gpu(bucket_of(page)), page);
    return line != none ? pin(line, page, used) : found::nothing;
}

WARPBELL_D void cache_lines::change(u32 line, u64 set, u64 clear, u64 less) const {
    u64 state = this->state(line);
    while (true) {
        const u64 wanted = ((state & ~clear) | set) - less;
        const u64 found = port::cas_acq_rel_gpu(&at(line)->state, state, wanted);
        if (found == state) {
            return;
        }
        state = found;
    }
}

// The page is dirty from now on, and not from before the store on: a flush in between would clean it.
template <class Policy> WARPBELL_D void cache_lines::unpin(u32 line, bool stored, bool used) const {
    const u64 set = (stored ? line_bits::dirty : 0) | (Policy::marks_use ? line_bits::used : 0);
    if constexpr (Policy::stamps_use) {
        port::store_relaxed_gpu(&at(line)->stamp, now());
    }
    // What is noted needs no compare-and-swap, which others' pins would make fail. (`dirty` does: a flush may
    // have begun since it was set.)
    if (set == 0 || (!stored && used)) {
        return add(line, 0u - line_bits::pin);
    }
    change(line, set, 0, line_bits::pin);
}

// ---- a page that is not there

WARPBELL_D cache_lines::found cache_lines::begin_miss(u64 page, u32& line) const {
    u64* const bucket = bucket_apart(page);
    if ((port::load_relaxed_gpu(bucket) & missing) != 0) {
        return found::busy;
    }
    if ((lock(bucket) & missing) != 0) {
        unlock(bucket, 0);
        return found::busy;
    }
    // Nobody changes the bucket's links meanwhile.
    const found how = mutate::cache_loaded_twice ? found::nothing : find_and_pin_apart(page, line);
    unlock(bucket, how == found::nothing ? missing : 0);
    return how == found::nothing ? found::ours : how;
}

WARPBELL_D void cache_lines::give_up_miss(u64 page) const { add_apart(bucket_apart(page), 0u - missing); }

template <class Policy, class Open> WARPBELL_D u32 cache_lines::claim_open(u64& state, Open open) const {
    // Each line twice; but of a large cache so many, before the caller looks at the clock, or goes without.
    // The next who asks goes on from there.
    const u32 all = 2u * ref_.line_count + 1u, attempts = all < most_attempts ? all : most_attempts;
    WARPBELL_NO_UNROLL
    for (u32 attempt = 0; attempt < attempts; ++attempt) {
        const u32 line = Policy::candidate(*this, attempt);
        state = this->state(line);
        if (!open(state) || Policy::spares(*this, line, state)) {
            continue;
        }
        const u64 phase = line_bits::of(line_bits::phase_of(state));
        const u64 kept = state & ~(line_bits::used | line_bits::ahead);
        const u64 wanted = kept - phase + line_bits::of(line_phase::leaving);
        if (port::cas_acq_rel_gpu(&at(line)->state, state, wanted) == state) {
            if (mutate::cache_unlinked_early && phase == line_bits::of(line_phase::ready)) {
                unlink(line);
            }
            return line;
        }
    }
    return none;
}

template <class Policy> WARPBELL_D u32 cache_lines::claim(u64& state, bool writes) const {
    const auto open = [=](u64 now) {
        return line_bits::is_open(now) && (writes || !line_bits::is_dirty(now));
    };
    return claim_open<Policy>(state, open);
}

template <class Policy> WARPBELL_D u32 cache_lines::claim_ahead(u64& state) const {
    const auto open = [](u64 now) { return line_bits::is_open_ahead(now); };
    return claim_open<Policy>(state, open);
}

WARPBELL_D void cache_lines::give(u32 line, u64 state, u64 page, u64 more) const {
    const bool loads = mutate::prefetch_takes_loading && line_bits::phase_of(state) == line_phase::loading;
    if ((line_bits::phase_of(state) == line_phase::ready && !mutate::cache_unlinked_early) || loads) {
        unlink(line);
    }
    port::fence_gpu(); // the line has left before it has another page: see `read`
    port::store_relaxed_gpu(&at(line)->page, page);
    port::store_relaxed_gpu(&at(line)->error, 0u);
    u64* const bucket = bucket_apart(page);
    const u32 head = static_cast<u32>(lock(bucket));
    port::store_relaxed_gpu(&at(line)->next, head);
    const line_phase now = mutate::cache_ready_early ? line_phase::ready : line_phase::loading;
    add_apart(&at(line)->state, line_bits::of(now) - line_bits::of(line_phase::leaving) + line_bits::pin +
                                    line_bits::generation - (state & line_bits::dirty) + more);
    unlock(bucket, line + 1ull - head - missing);
}

WARPBELL_D void cache_lines::keep(u32 line, status why) const {
    const u64 flags = why.buffer_in_use() ? line_bits::stuck | line_bits::held : line_bits::held;
    add_apart(&at(line)->state,
              line_bits::of(line_phase::ready) - line_bits::of(line_phase::leaving) + flags);
}

// Nobody new finds a page that could not be read; who has a pin on it learns why.
WARPBELL_D void cache_lines::settle(u32 line, status read) const {
    const line_phase was = mutate::cache_ready_early ? line_phase::ready : line_phase::loading;
    if (read.ok() || mutate::cache_failure_hidden) {
        return add_apart(&at(line)->state, line_bits::of(line_phase::ready) - line_bits::of(was));
    }
    unlink(line);
    port::store_relaxed_gpu(&at(line)->error, read.bits);
    const u64 flags = read.buffer_in_use() ? line_bits::stuck : 0;
    add_apart(&at(line)->state,
              line_bits::of(line_phase::failed) - line_bits::of(was) - line_bits::pin + flags);
}

// ---- reading ahead

// A failure is nobody's: who waits for the page finds no error, and looks again.
WARPBELL_D void cache_lines::settle_ahead(u32 line, status read) const {
    if (read.ok() || mutate::prefetch_failure_hidden) {
        return add_apart(&at(line)->state, line_bits::of(line_phase::ready) -
                                               line_bits::of(line_phase::loading) - line_bits::pin);
    }
    unlink(line);
    if (mutate::prefetch_failure_told) {
        port::store_relaxed_gpu(&at(line)->error, read.bits);
    }
    const u64 flags = (read.buffer_in_use() ? line_bits::stuck : 0) - line_bits::ahead;
    add_apart(&at(line)->state, line_bits::of(line_phase::failed) - line_bits::of(line_phase::loading) -
                                    line_bits::pin + flags);
}

// Who claims the line clears `ahead`, and who gives it another page begins a generation.
WARPBELL_D cache_lines::fate cache_lines::end_ahead(u32 line, u32 generation) const {
    u64 state = this->state(line);
    while (line_bits::generation_of(state) == generation && (state & line_bits::ahead) != 0) {
        const u64 found = port::cas_relaxed_gpu(&at(line)->state, state, state & ~line_bits::ahead);
        if (found == state) {
            return line_bits::is_used(state) ? fate::used : fate::unused;
        }
        state = found;
    }
    return fate::gone;
}

// ---- writing without leaving

// Two writes of one page are never under way at once, as the older might come last: so not of one whose write
// was given up, either. What is stored after this makes the page dirty again.
WARPBELL_D cache_lines::writable cache_lines::begin_write(u32 line) const {
    u64 state = this->state(line);
    while (true) {
        const line_phase phase = line_bits::phase_of(state);
        const bool leaves = phase == line_phase::leaving && line_bits::is_dirty(state);
        if (leaves || ((state & line_bits::writing) != 0 && !mutate::cache_two_writers)) {
            return mutate::cache_flush_impatient ? writable::clean : writable::busy;
        }
        if (phase != line_phase::ready || !line_bits::is_dirty(state)) {
            return writable::clean;
        }
        if ((state & line_bits::stuck) != 0) {
            return writable::stuck;
        }
        const u64 clear = line_bits::held | (mutate::cache_cleaned_late ? 0 : line_bits::dirty);
        const u64 wanted = ((state & ~clear) | line_bits::writing) + line_bits::pin;
        const u64 found = port::cas_acq_rel_gpu(&at(line)->state, state, wanted);
        if (found == state) {
            return writable::ours;
        }
        state = found;
    }
}

WARPBELL_D void cache_lines::end_write(u32 line, status written) const {
    const u64 stuck = written.buffer_in_use() ? line_bits::stuck : 0;
    const u64 set = written.ok() ? 0 : line_bits::dirty | line_bits::held | stuck;
    const u64 late = mutate::cache_cleaned_late && written.ok() ? line_bits::dirty : 0;
    change(line, set, line_bits::writing | late, line_bits::pin);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
