// Bodies of outstanding.cuh.
#pragma once

#include "../outstanding.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

// The first of the tokens that has its answer by now.
template <sharing Mode> WARPBELL_D any_status first_answer(queue<Mode>& q, io_token* tokens, u32 count) {
    any_status found;
    for (u32 i = 0; i < count; ++i) {
        const u32 k = mutate::any_takes_last ? count - 1u - i : i;
        if (found.index != any_status::none || !tokens[k].valid()) {
            continue;
        }
        if (const optional<status> done = q.try_wait(tokens[k])) {
            found.index = k;
            found.result = *done;
        }
    }
    return found;
}

// Of a lost queue: nothing more comes. The first of the tokens is answered so.
template <sharing Mode> WARPBELL_D any_status first_lost(queue<Mode>& q, io_token* tokens, u32 count) {
    any_status found;
    for (u32 i = 0; i < count; ++i) {
        if (found.index == any_status::none && tokens[i].valid()) {
            found.index = i;
            found.result = q.abandon(move(tokens[i]));
        }
    }
    return found;
}

// `count`: of the lane's own.
template <class Group, sharing Mode>
WARPBELL_D any_status wait_any(const Group& group, queue<Mode>& q, io_token* tokens, u32 count,
                               u64 timeout_ns) {
    bool waiting = false;
    for (u32 i = 0; i < count; ++i) {
        waiting = waiting || tokens[i].valid();
    }
    any_status mine = first_answer(q, tokens, count);
    waiting = waiting && mine.index == any_status::none;
    backoff backoff(timeout_ns);
    while (group.ballot(waiting) != 0) {
        const progress_result did = q.progress(group, backoff);
        if (!waiting) {
            continue;
        }
        mine = first_answer(q, tokens, count);
        if (mine.index == any_status::none && did == progress_result::lost && !mutate::any_ignores_loss) {
            mine = first_lost(q, tokens, count);
        }
        waiting = mine.index == any_status::none;
        if (waiting && did == progress_result::expired) {
            if (mutate::any_gives_up) {
                (void)first_lost(q, tokens, count);
            }
            mine.result = code::timed_out;
            waiting = false;
        }
    }
    return mine;
}

} // namespace detail

template <class Group, sharing Mode, class Retry, u32 Count>
WARPBELL_D any_status wait_any(const Group& who, session<Mode, Retry>& s, io_token (&tokens)[Count],
                               u64 timeout_ns) {
    return detail::wait_any(group_of(who), s.queue(), tokens, Count, timeout_ns);
}

template <class Group, sharing Mode, class Retry, u32 Count>
WARPBELL_D status wait_all(const Group& who, session<Mode, Retry>& s, io_token (&tokens)[Count],
                           u64 timeout_ns) {
    const auto group = group_of(who);
    const detail::rounds_deadline end(s.queue().deadline(timeout_ns), Count > 1);
    status result;
    for (u32 i = 0; i < Count; ++i) {
        // At least a nanosecond: 0 stands for the queue's own deadline.
        const u64 left_ns = i == 0                         ? timeout_ns
                            : mutate::all_deadlines_add_up ? s.queue().deadline(timeout_ns)
                                                           : end.left(group);
        const status answer = s.queue().wait(group, move(tokens[i]), left_ns != 0 || i == 0 ? left_ns : 1u);
        const bool worse = answer.buffer_in_use() && !result.buffer_in_use() && !mutate::all_in_use_hidden;
        if (result.ok() || worse) {
            result = answer;
        }
    }
    return result;
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D status cancel_each(const Group& who, session<Mode, Retry>& s, io_token&& token) {
    const auto group = group_of(who);
    if (!mutate::cancelled_unseen) {
        (void)s.queue().reap(group); // perhaps it has completed, and nobody has looked
    }
    return s.queue().abandon(move(token));
}

template <class Group, sharing Mode, class Retry>
WARPBELL_D status cancel(const Group& who, session<Mode, Retry>& s, io_token&& token) {
    const auto group = group_of(who);
    return detail::agree(group, cancel_each(group, s, move(token)));
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
