// Bodies of prefetch.cuh. A slot, a token, a sequence and a remembered page are each a lane's; the group
// finds them by ballots.
#pragma once

#include "../prefetch.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace experimental {

#define WARPBELL_PREFETCH_CALL(result, ...)                                                                  \
    template <class Cache, u32 Cap, u32 Streams>                                                             \
    template <__VA_ARGS__>                                                                                   \
    WARPBELL_D result prefetcher<Cache, Cap, Streams>

template <class Cache, u32 Cap, u32 Streams>
template <class Group>
WARPBELL_D prefetcher<Cache, Cap, Streams>::prefetcher(const Group& who, Cache& cache) : cache_(cache) {
    const auto group = group_of(who);
    const u32 half = cache.lines() / 2u, rank = group.thread_rank();
    const u32 most = !cache.usable_ || !Cache::reads ? 0 : half < Cap ? half : Cap;
    slots_ = group.ballot(rank < most || mutate::prefetch_over_cap);
    followers_ = group.ballot(rank < Streams);
    rememberers_ = group.ballot(rank < memory_of);
}

// ---- pages that were asked for

// Reads that have ended.
WARPBELL_PREFETCH_CALL(void, class Group)::settle(const Group& group, bool done, status said) {
    // What one lane has acquired the others may read.
    group.sync();
    const u32 failed = group.ballot(done && !said.ok() && !mutate::prefetch_failure_hidden);
    if (done && !in(failed)) {
        cache_.lines_.settle_ahead(slot_.line, status());
    }
    detail::one_by_one(group, failed, [&] { cache_.lines_.settle_ahead(slot_.line, said); });
    flying_ &= ~group.ballot(done);
    held_ &= ~failed;
    blame(group, failed);
}

WARPBELL_PREFETCH_CALL(void, class Group)::collect(const Group& who) {
    const auto group = group_of(who);
    if (flying_ == 0) {
        return;
    }
    const u64 age_ns = static_cast<u64>(cache_lines::now() - slot_.sent) << cache_lines::time_shift;
    const optional<status> said = backing::try_finish(group, cache_.source_, token_, age_ns);
    settle(group, in(flying_) && said, said ? *said : status());
}

// Their sequences read less ahead from now on, and new ones wait longer.
WARPBELL_PREFETCH_CALL(void, class Group)::blame(const Group& group, u32 which) {
    WARPBELL_NO_UNROLL
    for (; which != 0; which &= which - 1u) {
        if (group.from(port::lowest(which), slot_.stream) == port::lane()) {
            stream_.window /= 2u;
            stream_.run = 0;
        }
        credit_ -= credit_ != 0 ? 1u : 0u;
    }
}

// Slots whose pages are here are empty from now on. `used`: the group is about to use them.
WARPBELL_PREFETCH_CALL(void, class Group)::close(const Group& group, u32 which, bool used) {
    if (which == 0) {
        return;
    }
    using fate = cache_lines::fate;
    const fate how = in(which) ? cache_.lines_.end_ahead(slot_.line, slot_.generation) : fate::gone;
    const u32 useful = group.ballot(how == fate::used || (used && how == fate::unused));
    held_ &= ~which;
    useful_ += port::population(useful);
    const u32 credit = credit_ + port::population(useful);
    credit_ = credit < most_credit ? credit : most_credit;
    blame(group, which & ~useful);
}

// The group wants the pages of these slots: those on their way it waits for.
WARPBELL_PREFETCH_CALL(void, class Group)::meet(const Group& group, u32 wanted) {
    // A wait collects when it is worth the cost, which is late while others are on their way: so first
    // collect at each poll.
    const detail::rounds_deadline eager(eager_ns, (wanted & flying_) != 0);
    while ((wanted & flying_) != 0 && eager.left(group) != 0) {
        port::pause();
        collect(group);
    }
    const u32 loading = wanted & flying_;
    if (loading != 0) {
        typename backing::token_type token;
        if (in(loading)) {
            token = warpbell::move(token_);
        }
        const status said = backing::finish(group, cache_.source_, warpbell::move(token), 0);
        settle(group, in(loading), said);
    }
    close(group, wanted & held_, true);
}

// The slots that have one of the lanes' pages.
WARPBELL_PREFETCH_CALL(u32, class Group)::slots_of(const Group& group, optional<u64> page) const {
    u32 which = 0;
    WARPBELL_NO_UNROLL
    for (u32 left = held_; left != 0; left &= left - 1u) {
        const u64 there = group.from(port::lowest(left), slot_.page);
        which |= group.ballot(page && *page == there) != 0 ? left & (0u - left) : 0u;
    }
    return which;
}

// ---- reading ahead

// By one lane: a line for a page that is not there.
template <class Cache, u32 Cap, u32 Streams>
WARPBELL_D bool prefetcher<Cache, Cap, Streams>::claim(u64 page, bool& crowded) {
    using found = cache_lines::found;
    const cache_lines& lines = cache_.lines_;
    if (lines.has(page)) {
        return false;
    }
    // Before another page has left for it.
    crowded = !backing::may_start(cache_.source_, cache_.blocks_of(page));
    u32 there = cache_lines::none;
    const found how = crowded ? found::busy : lines.begin_miss(page, there);
    if (how == found::ready || how == found::loading) {
        lines.leave(there);
    }
    if (how != found::ours) {
        return false;
    }
    u64 state = 0;
    slot_.line = lines.template claim_ahead<typename Cache::policy_type>(state);
    crowded = slot_.line == cache_lines::none;
    if (crowded) {
        lines.give_up_miss(page);
        return false;
    }
    lines.give(slot_.line, state, page, line_bits::ahead);
    slot_.generation = lines.generation(slot_.line);
    slot_.page = page;
    return true;
}

// There was no room for these pages: their sequence reads less ahead for a while.
template <class Cache, u32 Cap, u32 Streams>
WARPBELL_D void prefetcher<Cache, Cap, Streams>::skip(u32 which, u32 which_stream) {
    skipped_ += port::population(which);
    stream_.window /= which != 0 && port::lane() == which_stream ? 2u : 1u;
}

// In lanes whose slots are empty. Returns how many reads are on their way.
WARPBELL_PREFETCH_CALL(u32, class Group)::start(const Group& group, optional<u64> page, u32 which_stream) {
    const u32 asked = group.ballot(page.has_value());
    if (asked == 0) {
        return 0;
    }
    bool ours = false, crowded = false;
    detail::one_by_one(group, asked, [&] { ours = claim(*page, crowded); });
    const optional<extent> where = ours ? optional<extent>(cache_.blocks_of(*page)) : optional<extent>();
    const auto data = cache_.memory_.subspan(ours ? cache_.offset(slot_.line) : 0, cache_.page_bytes());
    u32 started = 0;
    if (group.ballot(ours) != 0) {
        auto token = backing::start(group, cache_.source_, where, data);
        const bool flies = ours && token.in_flight();
        started = group.ballot(flies);
        const u32 refused = group.ballot(ours && !flies);
        detail::one_by_one(group, refused,
                           [&] { cache_.lines_.settle_ahead(slot_.line, code::not_submitted); });
        skip(refused, which_stream);
        if (flies) {
            token_ = warpbell::move(token);
            slot_.stream = which_stream;
            slot_.born = tick_;
            slot_.sent = cache_lines::now();
        }
    }
    held_ |= started;
    flying_ |= started;
    prefetched_ += port::population(started);
    skip(group.ballot(crowded), which_stream);
    return port::population(started);
}

WARPBELL_PREFETCH_CALL(u32, class Group)::prefetch(const Group& who, u64 first, u32 count) {
    const auto group = group_of(who);
    collect(group);
    close_gone(group);
    const u32 open = slots_ & ~held_, k = rank_in(open);
    const u64 rest = first < pages() ? pages() - first : 0;
    const u32 wanted = count < rest ? count : static_cast<u32>(rest);
    const optional<u64> mine = in(open) && k < wanted ? optional<u64>(first + k) : optional<u64>();
    const u32 room = port::population(open);
    skipped_ += wanted > room ? wanted - room : 0;
    return start(group, mine, no_stream);
}

// ---- sequences

// Reads what a sequence has fallen behind with, once that is half of its window: under one doorbell.
WARPBELL_PREFETCH_CALL(void, class Group)::go_on(const Group& group, u32 which) {
    const u64 both = group.from(which, static_cast<u64>(stream_.ahead) << 32 | stream_.window);
    const u32 ahead = static_cast<u32>(both >> 32), window = static_cast<u32>(both);
    const u32 open = slots_ & ~held_;
    if (window == 0 || ahead * 2u > window || open == 0) {
        return;
    }
    const u64 last = group.from(which, stream_.last), stride = group.from(which, stream_.stride);
    const u32 k = rank_in(open), room = port::population(open);
    const u32 n = window - ahead < room ? window - ahead : room;
    const u64 page = last + stride * (ahead + 1u + k);
    const bool mine = in(open) && k < n && page < pages();
    (void)start(group, mine ? optional<u64>(page) : optional<u64>(), which);
    if (port::lane() == which) {
        stream_.ahead += n;
    }
}

// Pages that nobody came for.
WARPBELL_PREFETCH_CALL(void, class Group)::expire(const Group& group) {
    const u32 waiting = held_ & ~flying_;
    if (waiting != 0) {
        close(group, group.ballot(in(waiting) && tick_ - slot_.born > 8u * Cap), false);
    }
}

// Pages that have left, or that others have used by now: no slot need wait for them.
WARPBELL_PREFETCH_CALL(void, class Group)::close_gone(const Group& group) {
    const u32 here = held_ & ~flying_;
    if (here != 0 && !mutate::prefetch_slot_kept) {
        group.sync(); // one lane releases what all have used
        const bool waits = in(here) && cache_.lines_.is_ahead(slot_.line, slot_.generation);
        close(group, here & ~group.ballot(waits), false);
    }
}

// The distance of this page from one that was remembered, if that is as far from an earlier one; else 0. It
// is remembered, too.
WARPBELL_PREFETCH_CALL(u64, class Group)::stride_to(const Group& group, u64 page) {
    u64 stride = 0;
    WARPBELL_NO_UNROLL
    for (u32 back = 1; back <= memory_of && back <= noted_ && stride == 0; ++back) {
        const u32 lane = nth_member(rememberers_, noted_ - back);
        const u64 before = group.from(lane, past_);
        const u32 at = group.from(lane, noted_at_);
        const u64 apart = page - before;
        const bool fits = noted_at_ != 0 && noted_at_ < at && past_ == before - apart;
        stride = group.ballot(fits) != 0 ? apart : 0;
    }
    if (group.ballot(noted_at_ != 0 && past_ == page) == 0) {
        if (port::lane() == nth_member(rememberers_, noted_)) {
            past_ = page;
            noted_at_ = noted_ + 1u;
        }
        ++noted_;
    }
    return stride;
}

// In place of none, or of the one that has stood still for longest.
WARPBELL_PREFETCH_CALL(void, class Group)::begin(const Group& group, u64 page, u64 stride) {
    const u32 free = followers_ & ~group.ballot(stream_.stride != 0);
    u32 which = port::lowest(free != 0 ? free : followers_), oldest = 0;
    WARPBELL_NO_UNROLL
    for (u32 left = free != 0 ? 0 : followers_; left != 0; left &= left - 1u) {
        const u32 seen = group.from(port::lowest(left), stream_.seen);
        which = tick_ - seen > oldest ? port::lowest(left) : which;
        oldest = tick_ - seen > oldest ? tick_ - seen : oldest;
    }
    const u32 of_before = group.ballot(in(held_) && slot_.stream == which);
    close(group, of_before & ~flying_, false);
    slot_.stream = in(of_before) ? no_stream : slot_.stream;
    if (port::lane() == which) {
        stream_ = stream();
        stream_.last = page;
        stream_.stride = stride;
        stream_.window = credit_ != 0 ? 2u : 0;
        stream_.seen = tick_;
    }
    go_on(group, which);
}

// The group has begun to use this page.
WARPBELL_PREFETCH_CALL(void, class Group)::observe(const Group& group, u64 page) {
    recent_ = page;
    if (Streams == 0 && mutate::prefetch_slot_kept) {
        return;
    }
    ++tick_;
    expire(group);
    if (Streams == 0) {
        return;
    }
    const u64 from_last = page - stream_.last;
    const u32 expected = group.ballot(stream_.stride != 0 && from_last == stream_.stride);
    if (expected == 0) {
        // Lanes may use two pages in turn.
        const bool again = from_last == 0 || from_last + stream_.stride == 0;
        const u64 stride = group.ballot(stream_.stride != 0 && again) != 0 ? 0 : stride_to(group, page);
        if (stride != 0) {
            begin(group, page, stride);
        }
        return;
    }
    const u32 which = port::lowest(expected), most = port::population(slots_);
    if (port::lane() == which) {
        stream_.last = page;
        stream_.seen = tick_;
        stream_.ahead -= stream_.ahead != 0 ? 1u : 0u;
        ++stream_.run;
        const u32 wider = stream_.window != 0 ? stream_.window * 2u : stream_.run >= patience ? 1u : 0u;
        stream_.window = wider < most ? wider : most;
    }
    go_on(group, which);
}

// So many distinct pages of one call at most: lanes that want more are all over the place.
WARPBELL_PREFETCH_CALL(void, class Group)::observe_each(const Group& group, optional<u64> page) {
    u32 asking = group.ballot(page.has_value());
    for (u32 n = 0; n < 4u && asking != 0; ++n) {
        const u64 number = group.from(port::lowest(asking), page ? *page : 0);
        asking &= ~group.ballot(page && *page == number);
        observe(group, number);
    }
}

// ---- the calls

WARPBELL_PREFETCH_CALL(status, class Group)::hold(const Group& group, u64 page, u32& line, u64 timeout_ns) {
    const bool fresh = page != recent_ && page < pages();
    if (fresh) {
        collect(group);
        meet(group, group.ballot(in(held_) && slot_.page == page));
    }
    const auto meanwhile = [&] {
        if (!mutate::prefetch_not_collected) {
            collect(group);
        }
    };
    const status said = cache_.hold(group, page, line, timeout_ns, meanwhile);
    if (fresh) {
        observe(group, page);
    }
    return said;
}

WARPBELL_PREFETCH_CALL(status, class Group, class Use)::use_each(const Group& who, optional<u64> page,
                                                                 bool stores, Use use, u64 timeout_ns) {
    detail::nothing_else nothing;
    const status refusal = page ? cache_.check(*page, stores) : status();
    const optional<u64> inside = refusal.ok() ? page : optional<u64>();
    const status said = use_each_holding(group_of(who), inside, stores, use, timeout_ns, nothing);
    return refusal.ok() ? said : refusal;
}

WARPBELL_PREFETCH_CALL(status, class Group, class Stores, class Use,
                       class... Held)::use_each_holding(const Group& group, optional<u64> page, Stores stores,
                                                        Use& use, u64 timeout_ns, detail::nothing_else&,
                                                        Held&... held) {
    optional<u64> inside = page;
    bool fresh = group.ballot(inside && *inside != recent_) != 0;
    if (fresh) {
        collect(group);
        meet(group, slots_of(group, inside));
    }
    auto meanwhile = [&] {
        if (!mutate::prefetch_not_collected) {
            collect(group);
        }
    };
    const status said =
        cache_.use_each_holding(group, page, stores, use, timeout_ns, meanwhile, inside, fresh, held...);
    if (fresh) {
        observe_each(group, inside);
    }
    return said;
}

WARPBELL_PREFETCH_CALL(void, class Group)::detach(const Group& who) {
    const auto group = group_of(who);
    if (flying_ != 0 && !mutate::prefetch_token_lost) {
        const bool mine = in(flying_);
        const status said = backing::finish(group, cache_.source_, warpbell::move(token_), 0);
        settle(group, mine, said);
    }
    close(group, held_ & ~flying_, false);
    warpbell_cache_report* const report = cache_.lines_.report();
    const auto add = [&](u64* to, u32 count) {
        if (count != 0 && group.is_leader()) {
            port::add_relaxed_gpu(to, static_cast<u64>(count));
        }
    };
    add(&report->prefetched, prefetched_);
    add(&report->prefetched_used, useful_);
    add(&report->prefetched_in_vain, mutate::prefetch_vain_uncounted ? 0 : prefetched_ - useful_);
    add(&report->prefetch_skipped, skipped_);
    prefetched_ = useful_ = skipped_ = 0;
}

#undef WARPBELL_PREFETCH_CALL

} // namespace experimental
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
