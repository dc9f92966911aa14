// Bodies of cache.cuh: how lanes get the pages they want.
#pragma once

#include "../cache.cuh"
#include "cache_word.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

#define WARPBELL_CACHE_MEMBER(result)                                                                        \
    template <class Source, page_access Access, class Policy>                                                \
    WARPBELL_D result page_cache<Source, Access, Policy>
#define WARPBELL_CACHE_CALL(result, ...)                                                                     \
    template <class Source, page_access Access, class Policy>                                                \
    template <__VA_ARGS__>                                                                                   \
    WARPBELL_D result page_cache<Source, Access, Policy>

// Bodies that are not inlined.
#define WARPBELL_CACHE_REST(result, ...)                                                                     \
    template <class Source, page_access Access, class Policy>                                                \
    template <__VA_ARGS__>                                                                                   \
    WARPBELL_NOINLINE result page_cache<Source, Access, Policy>

namespace detail {

// Has the lanes of `which` do something one after the other: what takes a lock of a bucket never meets a lane
// of its own warp there.
template <class Group, class Do> WARPBELL_D void one_by_one(const Group& group, u32 which, Do work) {
    WARPBELL_NO_UNROLL
    for (; which != 0; which &= which - 1u) {
        if (port::lane() == port::lowest(which)) {
            work();
        }
        group.sync();
    }
}

} // namespace detail

WARPBELL_CACHE_CALL(bool, class Group)::fits(const Group& group, const warpbell_cache_ref& ref,
                                             Source& source, const span_type& memory) {
    const bool good = ref.abi_version == WARPBELL_ABI_VERSION && ref.size == sizeof(ref) &&
                      ref.line_count != 0 && 1u << ref.page_shift >= source.block_bytes() &&
                      memory.inside() && memory.bytes() >> ref.page_shift >= ref.line_count;
    return group.ballot(!good) == 0;
}

WARPBELL_CACHE_MEMBER(status)::check(u64 page, bool stores) const {
    if (page >= usable_pages_ && !(usable_ && mutate::cache_page_unchecked)) {
        return outside();
    }
    return stores && !may_store ? status(code::read_only) : status();
}

// ---- one page

// One lane's page and its line, to the SSD or from there.
WARPBELL_CACHE_REST(status, class Group)::transfer(const Group& group, opcode op, bool mine, u64 page,
                                                   u32 line) {
    optional<extent> where = mine ? optional<extent>(blocks_of(page)) : optional<extent>();
    span_type data = memory_.subspan(mine ? offset(line) : 0, page_bytes());
    port::keep_in_memory(where);
    port::keep_in_memory(data);
    return backing::move(group, source_, op, where, data);
}

WARPBELL_CACHE_MEMBER(void)::claim(found_page& mine, u64 page) {
    mine.now = static_cast<typename found_page::at>(lines_.begin_miss(page, mine.line));
    if (mine.now != found_page::at::ours) {
        return;
    }
    mine.line = lines_.claim<Policy>(mine.state, may_store);
    if (mine.line == cache_lines::none) {
        mine.now = found_page::at::crowded;
        lines_.give_up_miss(page);
    }
}

// The pages that leave, as far as they are dirty. One that cannot be written stays.
WARPBELL_CACHE_CALL(void, class Group)::write_back(const Group& group, found_page& mine, u64& page) {
    bool dirty = mine.now == found_page::at::ours && line_bits::is_dirty(mine.state);
    if (!may_store || group.ballot(dirty) == 0 || mutate::cache_dirty_lost) {
        return;
    }
    u64 leaving = dirty ? lines_.page(mine.line) : 0;
    const auto send = [&] { return transfer(group, opcode::write, dirty, leaving, mine.line); };
    const status written = port::aside(send, page, leaving, dirty);
    write_backs_ += dirty && written.ok() ? 1u : 0u;
    if (!dirty || written.ok() || mutate::cache_unwritten_leaves) {
        return;
    }
    if (!mutate::cache_error_swallowed) {
        note(written, leaving);
    }
    lines_.keep(mine.line, written);
    lines_.give_up_miss(page);
    mine.now = found_page::at::crowded;
}

WARPBELL_CACHE_CALL(void, class Group)::zero(const Group& group, u32 filling, u32 line) {
    WARPBELL_NO_UNROLL
    for (; filling != 0; filling &= filling - 1u) {
        const u32 which = group.from(port::lowest(filling), line);
        u64* const words = memory<u64>(which);
        for (u32 at = group.thread_rank(); at < page_bytes() / 8u; at += group.size()) {
            words[at] = 0;
        }
    }
    group.sync();
}

// Gives claimed lines their new pages, and reads those.
WARPBELL_CACHE_CALL(void, class Group)::fill(const Group& group, found_page& mine, u64& page) {
    bool fills = mine.now == found_page::at::ours;
    u32 filling = group.ballot(fills);
    if (filling == 0) {
        return;
    }
    detail::one_by_one(group, filling, [&] { lines_.give(mine.line, mine.state, page); });
    status read;
    if constexpr (Access == page_access::write_once) {
        zero(group, filling, mine.line);
    } else {
        const auto send = [&] { return transfer(group, opcode::read, fills, page, mine.line); };
        read = port::aside(send, page, fills, filling);
    }
    group.sync();
    misses_ += fills ? 1u : 0u;
    detail::one_by_one(group, filling, [&] { lines_.settle(mine.line, read); });
    if (fills) {
        mine.now =
            read.ok() || mutate::cache_failure_hidden ? found_page::at::pinned : found_page::at::failed;
        mine.answer = read;
    }
}

// Pages that other warps read. Nothing of this group is on its way by now. A pin keeps a phase that follows
// `loading` from changing again.
WARPBELL_CACHE_CALL(void, class Group, class Meanwhile)::await(const Group& group, found_page& mine,
                                                               u64 timeout_ns, Meanwhile& meanwhile) {
    const u64 begin_ns = port::clock_ns();
    back_off wait;
    while (group.ballot(mine.now == found_page::at::loading) != 0) {
        const bool late = port::clock_ns() - begin_ns > timeout_ns;
        if (mine.now == found_page::at::loading) {
            const line_phase phase = line_bits::phase_of(lines_.state(mine.line));
            if (phase == line_phase::ready) {
                mine.now = found_page::at::pinned;
            } else if (phase != line_phase::loading || late) {
                const bool failed = phase != line_phase::loading;
                mine.answer = failed ? lines_.error(mine.line) : status(code::not_submitted);
                // No error: it was read ahead, in vain; so this lane reads it.
                mine.now = mine.answer.ok() ? found_page::at::busy : found_page::at::failed;
                lines_.template unpin_apart<Policy>(mine.line);
            }
        }
        meanwhile();
        wait.idle();
    }
    // What is seen to be there may be read.
    port::fence_gpu_group(group.is_leader());
}

// Pages that are not there, of lanes `away`; or why nothing is sent. From a queue that is lost nothing is
// read: what it is asked for counts as in use for ever, and would take line after line.
WARPBELL_CACHE_CALL(status, class Group)::fetch(const Group& group, u32 away, found_page& mine, u64& page) {
    const status refusal = backing::refusal(group, source_);
    if (refusal.ok()) {
        detail::one_by_one(group, away, [&] { claim(mine, page); });
        write_back(group, mine, page);
        fill(group, mine, page);
    }
    return refusal;
}

// The page of a lane that leads all who want it, pinned where it is there. `used`: as the pin found the line.
template <class Source, page_access Access, class Policy>
WARPBELL_D auto page_cache<Source, Access, Policy>::look_up(bool leads, u64 page, bool& used) -> found_page {
    found_page mine;
    if (leads) {
        mine.now = static_cast<typename found_page::at>(lines_.find_and_pin(page, mine.line, used));
        hits_ += mine.now == found_page::at::pinned ? 1u : 0u;
    }
    return mine;
}

// The same by a function of its own, as a miss does it.
template <class Source, page_access Access, class Policy>
WARPBELL_D auto page_cache<Source, Access, Policy>::look_again(bool leads, u64 page) -> found_page {
    found_page mine;
    if (leads) {
        mine.now = static_cast<typename found_page::at>(lines_.find_and_pin_apart(page, mine.line));
        hits_ += mine.now == found_page::at::pinned ? 1u : 0u;
    }
    return mine;
}

// What becomes of a page that was not there, of the lanes with `open`: it is read, or has failed, or is to be
// looked up again.
WARPBELL_CACHE_CALL(void, class Group, class Meanwhile)::resolve(const Group& group, bool& open, u32 same,
                                                                 u64& page, page_call& call,
                                                                 Meanwhile& meanwhile) {
    found_page& mine = call.mine;
    bool leads = open && port::lane() == port::lowest(same);
    bool was_here = mine.now == found_page::at::pinned;
    u32 misses = misses_;
    const u32 away = group.ballot(leads && mine.now == found_page::at::away);
    if (away != 0) {
        const auto get = [&] { return fetch(group, away, mine, page); };
        const status refusal = port::aside(get, open, leads, was_here, misses);
        if (!refusal.ok()) {
            mine.answer = refusal;
            mine.now = mine.now == found_page::at::away ? found_page::at::failed : mine.now;
        }
    }
    if (group.ballot(mine.now == found_page::at::loading) != 0) {
        await(group, mine, call.left_ns, meanwhile);
    }
    hits_ += leads && !was_here && mine.now == found_page::at::pinned && misses_ == misses ? 1u : 0u;
}

// Whether this lane has used its page, which lane `first` has pinned for all of `same`, or not.
WARPBELL_CACHE_CALL(bool, class Group, class Stores,
                    class Use)::use_found(const Group& group, bool open, u32 same, u32 first, Stores stores,
                                          const found_page& mine, bool used, Use& use) {
    // One lane has acquired what the others are about to read.
    group.sync();
    const u32 found = mine.now == found_page::at::pinned ? mine.line : cache_lines::none;
    const u32 line = group.from(first, found);
    const bool here = open && line != cache_lines::none;
    if (here) {
        use(memory<u8>(line));
    }
    // Before the pin goes, all lanes of the page are done with it.
    group.sync();
    const bool stored = may_store && detail::any_stores(group, here, same, stores);
    if (here && port::lane() == first) {
        lines_.template unpin<Policy>(line, stored, used);
    }
    return here;
}

// Writes the page of a line, where it is dirty. True: somebody else writes it, look again. `late`: nothing is
// begun any more.
WARPBELL_CACHE_CALL(bool, class Group)::write_line(const Group& group, bool open, u32 line, bool late,
                                                   status& result) {
    using writable = cache_lines::writable;
    if (!may_store || late) {
        const bool left_over = open && line_bits::is_unwritten(lines_.state(line));
        result = left_over ? status(may_store ? code::not_submitted : code::read_only) : result;
        return false;
    }
    writable how = open ? lines_.begin_write(line) : writable::clean;
    bool mine = how == writable::ours;
    u64 page = mine ? lines_.page(line) : 0;
    if (group.ballot(mine) != 0) {
        const auto send = [&] { return transfer(group, opcode::write, mine, page, line); };
        const status said = port::aside(send, mine, line, how, page);
        if (mine) {
            lines_.end_write(line, said);
            write_backs_ += said.ok() ? 1u : 0u;
            result = said.ok() || mutate::cache_error_swallowed ? result : said;
        }
    }
    result = how == writable::stuck ? status(code::timed_out) : result;
    return how == writable::busy;
}

// ---- the calls

// What a lane is answered whose page is not there once the deadline has passed, or that failed.
WARPBELL_CACHE_MEMBER(status)::answer_of(const found_page& got) {
    return got.now == found_page::at::failed    ? got.answer
           : got.now == found_page::at::crowded ? code::no_room
                                                : code::not_submitted;
}

// Of lanes whose page has failed, or that have no time left: what they are answered. The others have still to
// go on.
WARPBELL_CACHE_CALL(bool, class Group)::end_failed(const Group& group, bool open, u32 same, page_call& call) {
    const u32 first = port::lowest(same);
    found_page got;
    got.now = static_cast<typename found_page::at>(group.from(first, static_cast<u32>(call.mine.now)));
    got.answer = status::from_bits(group.from(first, static_cast<u32>(call.mine.answer.bits)));
    const bool late = call.left_ns == 0 && !mutate::cache_waits_for_ever;
    if (open && (late || got.now == found_page::at::failed)) {
        call.result = answer_of(got);
        return false;
    }
    return open;
}

// Gets pages that were not there, of the lanes with `open`, or has them looked up again. True: the page may
// be pinned now, and if it is not, this is to be called again. False: the call has its result, or had its
// page.
WARPBELL_CACHE_REST(bool, class Group, class Meanwhile)::get_missing(const Group& group, bool open, u32 same,
                                                                     u64 page, u64 timeout_ns,
                                                                     page_call& call, Meanwhile& meanwhile) {
    const u64 total_ns = timeout_ns != 0 ? timeout_ns : lines_.ref().timeout_ns;
    port::keep_in_memory(page);
    if (call.asking == 0) {
        call.begin_ns = port::clock_ns();
        call.left_ns = total_ns;
    } else {
        const u64 gone = mutate::deadline_of_each_round ? 0 : port::clock_ns() - call.begin_ns;
        call.left_ns = group.broadcast(gone < total_ns ? total_ns - gone : 0);
        const u32 before = call.asking, still = group.ballot(open);
        open = end_failed(group, open, same, call);
        if (group.ballot(open) == 0) {
            return false;
        }
        meanwhile();
        // Who has got something goes on at once.
        still != before ? call.wait.busy() : call.wait.idle();
        call.mine = look_again(open && port::lane() == port::lowest(same), page);
    }
    call.asking = group.ballot(open);
    resolve(group, open, same, page, call, meanwhile);
    return open;
}

WARPBELL_CACHE_CALL(status, class Group, class Meanwhile)::hold(const Group& group, u64 page, u32& line,
                                                                u64 timeout_ns, Meanwhile meanwhile) {
    const status refusal = check(page, false);
    if (!refusal.ok()) {
        return refusal;
    }
    bool used = false;
    page_call call(look_up(group.is_leader(), page, used), refusal);
    while (true) {
        group.sync();
        line = group.broadcast(call.mine.now == found_page::at::pinned ? call.mine.line : cache_lines::none);
        if (line != cache_lines::none ||
            !get_missing(group, true, group.mask(), page, timeout_ns, call, meanwhile)) {
            return call.result;
        }
    }
}

WARPBELL_CACHE_CALL(status, class Group, class Use,
                    class Meanwhile)::use_each(const Group& who, optional<u64> page, bool stores, Use use,
                                               u64 timeout_ns, Meanwhile meanwhile) {
    const status refusal = page ? check(*page, stores) : status();
    const optional<u64> inside = refusal.ok() ? page : optional<u64>();
    const status said = use_each_holding(group_of(who), inside, stores, use, timeout_ns, meanwhile);
    return refusal.ok() ? said : refusal;
}

WARPBELL_CACHE_CALL(status, class Group, class Stores, class Use, class Meanwhile,
                    class... Held)::use_each_holding(const Group& group, optional<u64> page, Stores stores,
                                                     Use& use, u64 timeout_ns, Meanwhile& meanwhile,
                                                     Held&... held) {
    status result;
    bool open = static_cast<bool>(page);
    u64 number = open ? *page : ~0ull; // which is no page's
    // Lanes of one page get it together, or none of them does.
    u32 same = group.match(number);
    u32 first = port::lowest(same);
    bool used = false;
    found_page mine = look_up(open && port::lane() == first, number, used);
    port::made_later<page_call> rest;
    for (bool begun = false;; begun = true) {
        open = !use_found(group, open, same, first, stores, mine, used, use) && open;
        if (group.ballot(open) == 0) {
            return result;
        }
        if (!begun) {
            rest.make(mine, result);
        }
        const auto get = [&] {
            return get_missing(group, open, same, number, timeout_ns, rest.value(), meanwhile);
        };
        open = port::aside(get, same, number, held...);
        first = port::lowest(same);
        mine = rest.value().mine;
        used = false; // where it is, the mark is set again
        result = rest.value().result;
    }
}

WARPBELL_CACHE_CALL(bool, class Group, class Word)::read_word(const Group& group, bool wants, u64 at,
                                                              Word& word) {
    // What its lanes have stored is seen by all of the group.
    if (!mutate::cache_word_unsynced) {
        group.sync();
    }
    const u64 page = at >> lines_.ref().page_shift;
    const u64 offset = at & (page_bytes() - 1u);
    cache_lines::sighting seen;
    if (wants) {
        seen = lines_.read(page, memory<const u8>(0) + offset, word);
    }
    port::fence_gpu_group(group.is_leader()); // what was read before the line's state now
    const bool had = seen.line != cache_lines::none && lines_.holds(seen);
    // One lane counts a page, and tells the policy; where not all have got it, those that look again do.
    const u64 whose = wants ? page : ~0ull; // which is no page's
    const u32 same = group.match(whose), missed = group.ballot(!had);
    if (had && port::lane() == port::lowest(same) && (same & missed) == 0) {
        ++hits_;
        lines_.template note_use<Policy>(seen);
    }
    if (had) {
        port::count_word();
    }
    return had;
}

WARPBELL_CACHE_CALL(status, class Group)::flush(const Group& who, u64 timeout_ns) {
    const auto group = group_of(who);
    if (!usable_) {
        return code::invalid_field;
    }
    const detail::rounds_deadline end(timeout_ns != 0 ? timeout_ns : lines_.ref().timeout_ns, true);
    status result = backing::refusal(group, source_);
    if (!result.ok()) {
        return result;
    }
    // One lane releases what all have stored: before any of them polls.
    group.sync();
    WARPBELL_NO_UNROLL
    for (u32 first = 0; first < lines_.count(); first += group.size()) {
        bool open = first + group.thread_rank() < lines_.count();
        back_off wait;
        while (true) {
            const bool late = end.left(group) == 0 && !mutate::cache_flush_late;
            open = write_line(group, open, first + group.thread_rank(), late, result);
            if (group.ballot(open) == 0) {
                break;
            }
            wait.idle();
        }
    }
    const status all = detail::agree(group, result);
    const status durable = may_store ? backing::flush(group, source_) : status();
    return all.ok() ? durable : all;
}

WARPBELL_CACHE_MEMBER(void)::note(status why, u64 page) const {
    warpbell_cache_report* const report = lines_.report();
    if (port::cas_relaxed_gpu(&report->error_status, 0, why.bits) == 0) {
        port::store_relaxed_gpu(&report->error_page, page);
    }
}

WARPBELL_CACHE_CALL(void, class Group)::detach(const Group&) {
    warpbell_cache_report* const report = lines_.report();
    const auto add = [](u64* to, u32& count) {
        if (count != 0) {
            port::add_relaxed_gpu(to, static_cast<u64>(count));
        }
        count = 0;
    };
    add(&report->hits, hits_);
    add(&report->misses, misses_);
    add(&report->write_backs, write_backs_);
}

#undef WARPBELL_CACHE_REST
#undef WARPBELL_CACHE_CALL
#undef WARPBELL_CACHE_MEMBER

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
