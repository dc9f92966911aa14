// Bodies of ordered.cuh.
#pragma once

#include "../ordered.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace experimental {

template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D status io_order<Order, Depth, Commands>::post(const Group& group, session<Mode, Retry>& s,
                                                         const command& what, bool whole) {
    if (count_ == Depth && !mutate::order_too_deep) {
        return code::no_room;
    }
    const status begun = step(count_).begin(group, s, what, whole);
    ++count_;
    advance(group, s);
    return begun;
}

// `completion`: one step at a time.
template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D void io_order<Order, Depth, Commands>::run_in_turn(const Group& group, session<Mode, Retry>& s) {
    while (completed_ < count_) {
        io_request<Commands>& now = step(completed_);
        if (broken_ && !mutate::order_kept_after_failure) {
            now.give_up(s, code::aborted);
        }
        now.advance(group, s);
        if (group.ballot(!now.is_done()) != 0) {
            return;
        }
        broken_ = broken_ || group.ballot(!now.result().ok()) != 0;
        ++completed_;
    }
}

// `delivery`: each as soon as those before it are sent.
template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D void io_order<Order, Depth, Commands>::run_at_once(const Group& group, session<Mode, Retry>& s) {
    bool sent = true;
    for (u32 k = 0; k < count_ && sent; ++k) {
        // Those before it have ids of these lanes, and release them.
        step(k).advance(group, s, k != 0 && !mutate::delivery_impatient);
        sent = group.ballot(!step(k).is_sent()) == 0;
    }
}

template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D void io_order<Order, Depth, Commands>::advance(const Group& group, session<Mode, Retry>& s) {
    if (Order == ordering::completion && !mutate::order_ignored) {
        run_in_turn(group, s);
    } else {
        run_at_once(group, s);
    }
}

// The oldest step, if it is done in all lanes; else `Depth`.
template <ordering Order, u32 Depth, u32 Commands>
template <class Group>
WARPBELL_D u32 io_order<Order, Depth, Commands>::first_done(const Group& group) {
    for (u32 k = 0; k < (mutate::delivered_as_done ? count_ : 1u); ++k) {
        if (group.ballot(!step(k).is_done()) == 0) {
            return k;
        }
    }
    return Depth;
}

template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D ordered_answer io_order<Order, Depth, Commands>::hand_over(const Group& group,
                                                                      session<Mode, Retry>& s, u32 k) {
    ordered_answer answer;
    answer.result = step(k).finish(group, s);
    answer.bytes = step(k).bytes();
    if (k == 0) {
        oldest_ = (oldest_ + 1u) % Depth;
        --count_;
        completed_ -= completed_ != 0 ? 1u : 0u;
        broken_ = broken_ && (count_ != 0 || mutate::order_broken_for_ever);
    }
    return answer;
}

template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D optional<ordered_answer> io_order<Order, Depth, Commands>::try_take(const Group& group,
                                                                               session<Mode, Retry>& s) {
    if (count_ == 0) {
        return nullopt;
    }
    (void)s.queue().reap(group);
    advance(group, s);
    const u32 k = first_done(group);
    if (k == Depth) {
        return nullopt;
    }
    return hand_over(group, s, k);
}

template <ordering Order, u32 Depth, u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D ordered_answer io_order<Order, Depth, Commands>::take(const Group& group, session<Mode, Retry>& s,
                                                                 u64 timeout_ns) {
    if (count_ == 0) {
        ordered_answer none;
        none.result = code::invalid_field;
        return none;
    }
    backoff backoff(timeout_ns);
    for (;;) {
        advance(group, s);
        const u32 k = first_done(group);
        if (k != Depth) {
            return hand_over(group, s, k);
        }
        const progress_result did = s.queue().progress(group, backoff);
        const bool lost = did == progress_result::lost && !mutate::order_ignores_loss;
        if (lost || did == progress_result::expired) {
            step(0).give_up(s, lost ? code::queue_lost : code::not_submitted);
        }
    }
}

} // namespace experimental
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
