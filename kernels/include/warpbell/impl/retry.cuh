// How a blocking call submits commands again. For sessions with a policy; the others see nothing of it.
#pragma once

#include "../io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

// One blocking call of a group, from its first submission on.
template <class Group, sharing Mode, class Retry> class retrying {
  public:
    WARPBELL_D retrying(const Group& group, session<Mode, Retry>& s, u64 deadline_ns)
        : group_(group), s_(s), begin_ns_(group.broadcast(port::clock_ns())),
          total_ns_(s.queue().deadline(deadline_ns)), left_(s.retries().most) {}

    // What is to be answered for a command that got `answer` first. Lanes without `want` take part.
    template <class Start> WARPBELL_D status run(bool want, status answer, Start start) {
        const status first = answer;
        u64 due = want ? consider(answer) : never;
        bool on = go_on(want && answer.is(code::queue_lost), answer, due);
        while (on && group_.ballot(due != never) != 0) {
            const u64 now = group_.broadcast(port::clock_ns());
            const bool go = due <= now;
            if (group_.ballot(go) == 0) {
                // Nobody is due. Whoever shares the queue gets his answers meanwhile.
                (void)s_.queue().reap(group_);
                port::pause();
                continue;
            }
            const u64 rest = left_ns(now);
            io_token token = start(go, rest);
            const status next = s_.queue().wait(group_, move(token), rest);
            if (go) {
                ++s_.retries().retried;
                left_ -= left_ != 0 ? 1u : 0u;
                answer = next;
                due = consider(answer);
            }
            on = go_on(go && answer.is(code::queue_lost), answer, due);
        }
        s_.retries().recovered += want && answer.ok() && !first.ok() ? 1u : 0u;
        return answer;
    }

  private:
    static constexpr u64 never = ~0ull;

    // At least a nanosecond: 0 stands for the queue's own deadline.
    WARPBELL_D u64 left_ns(u64 now) const {
        const u64 gone = now - begin_ns_;
        return gone < total_ns_ ? total_ns_ - gone : 1u;
    }
    // When to submit the command again, if at all.
    WARPBELL_D u64 at(u64 delay) const {
        const u64 due = port::clock_ns() + delay;
        return due - begin_ns_ < total_ns_ ? due : never;
    }
    WARPBELL_D u64 consider(status answer) {
        s_.retries().timed_out += answer.is(code::timed_out) ? 1u : 0u;
        s_.retries().not_submitted += answer.is(code::not_submitted) ? 1u : 0u;
        s_.retries().aborted += answer.is_aborted() ? 1u : 0u;
        const optional<u64> delay = retry_delay_ns(s_, answer, left_);
        return delay ? at(*delay) : never;
    }
    // Where a lane's command was lost with the queue, the group moves on to the next one. False: there is
    // none.
    WARPBELL_D bool go_on(bool lost, status& answer, u64& due) {
        if (group_.ballot(lost) == 0) {
            return true;
        }
        s_.retries().queue_losses += group_.is_leader() ? 1u : 0u;
        if (s_.retries().most == 0) {
            return false;
        }
        const u64 rest = left_ns(group_.broadcast(port::clock_ns()));
        const status back = s_.reattach(group_, rest);
        if (back.ok()) {
            due = lost && left_ != 0 ? at(0) : due;
            return true;
        }
        answer = lost ? back : answer;
        return false;
    }

    const Group& group_;
    session<Mode, Retry>& s_;
    const u64 begin_ns_, total_ns_;
    u32 left_; // attempts of this lane
};

// `start(want, deadline_ns)` submits a command for each lane with `want`, and returns its token.
template <class Group, sharing Mode, class Retry, class Start>
WARPBELL_D status run_start(const Group& group, session<Mode, Retry>& s, bool want, Start start,
                            u64 deadline_ns) {
    if constexpr (Retry::enabled) {
        retrying<Group, Mode, Retry> call(group, s, deadline_ns);
        io_token token = start(want, deadline_ns);
        return call.run(want, s.queue().wait(group, move(token), deadline_ns), start);
    } else {
        io_token token = start(want, deadline_ns);
        return s.queue().wait(group, move(token), deadline_ns);
    }
}

} // namespace detail
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
