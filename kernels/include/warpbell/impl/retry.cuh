// How a blocking call submits commands again. For sessions with a policy; the others see nothing of it.
#pragma once

#include "../io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

// What a call remembers of a lane's commands, one after the other. Without a policy: nothing.
template <class Group, sharing Mode, class Retry, bool Enabled = Retry::enabled> class attempts {
  public:
    WARPBELL_D attempts(const Group&, session<Mode, Retry>&, u64) {}
    WARPBELL_D bool is_due() const { return true; }
    WARPBELL_D bool again(status) const { return false; }
    WARPBELL_D bool follow(const Group&, bool, status&) const { return true; }
    WARPBELL_D status last_or(status unsent) const { return unsent; }
    WARPBELL_D u64 left_ns(u64) const { return 0; }
};

template <class Group, sharing Mode, class Retry> class attempts<Group, Mode, Retry, true> {
  public:
    WARPBELL_D attempts(const Group& group, session<Mode, Retry>& s, u64 timeout_ns)
        : s_(s), begin_ns_(group.broadcast(port::clock_ns())), total_ns_(s.queue().deadline(timeout_ns)),
          left_(s.retries().most) {}

    // Whether the lane's command may be submitted now.
    WARPBELL_D bool is_due() const { return due_ == now || due_ <= port::clock_ns(); }
    WARPBELL_D bool is_due(u64 clock_ns) const { return due_ <= clock_ns; }

    // After an answer to the lane's command: whether the command is to be submitted again. Else it is over.
    WARPBELL_D bool again(status said) {
        if (is_lost_) { // as `follow` has said
            is_lost_ = false;
        } else {
            count(said);
            const optional<u64> delay = retry_delay_ns(s_, said, left_);
            due_ = delay ? at(*delay) : never;
        }
        if (due_ != never) {
            last_ = said;
            left_ -= left_ != 0 ? 1u : 0u;
            ++s_.retries().retried;
            return true;
        }
        s_.retries().recovered += said.ok() && !last_.ok() ? 1u : 0u;
        last_ = status();
        left_ = s_.retries().most;
        due_ = now;
        return false;
    }

    // Where a lane's command was lost with the queue, the group moves on to the next one. False: there is
    // none.
    WARPBELL_D bool follow(const Group& group, bool answered, status& said) {
        const bool lost = answered && said.is(code::queue_lost);
        if (group.ballot(lost) == 0) {
            return true;
        }
        s_.retries().queue_losses += group.is_leader() ? 1u : 0u;
        if (s_.retries().most == 0) {
            return false;
        }
        const status back = s_.switch_to_successor(group, left_ns(group.broadcast(port::clock_ns())));
        if (lost) {
            is_lost_ = true;
            due_ = back.ok() && left_ != 0 ? at(0) : never;
            said = back.ok() ? said : back;
        }
        return back.ok();
    }

    // What the command that is to be submitted again was answered.
    WARPBELL_D status last_or(status unsent) const { return last_.ok() ? unsent : last_; }
    // At least a nanosecond: 0 stands for the queue's own deadline.
    WARPBELL_D u64 left_ns(u64 clock_ns) const {
        const u64 gone = clock_ns - begin_ns_;
        return gone < total_ns_ ? total_ns_ - gone : 1u;
    }

  private:
    static constexpr u64 now = 0, never = ~0ull;

    // When to submit the command again, if at all.
    WARPBELL_D u64 at(u64 delay) const {
        const u64 due = port::clock_ns() + delay;
        return due - begin_ns_ < total_ns_ ? due : never;
    }
    WARPBELL_D void count(status said) {
        s_.retries().timed_out += said.is(code::timed_out) ? 1u : 0u;
        s_.retries().not_submitted += said.is(code::not_submitted) ? 1u : 0u;
        s_.retries().aborted += said.is_aborted() ? 1u : 0u;
    }

    session<Mode, Retry>& s_;
    const u64 begin_ns_, total_ns_;
    u64 due_ = now;
    u32 left_; // attempts of this command
    status last_;
    bool is_lost_ = false;
};

// Commands that a call has submitted and waited for, one of each lane: those that failed for now are
// submitted again, and waited for.
template <class Group, sharing Mode, class Retry> class retrying {
  public:
    WARPBELL_D retrying(const Group& group, session<Mode, Retry>& s, u64 timeout_ns)
        : group_(group), s_(s), tries_(group, s, timeout_ns) {}

    // What is to be answered for a command that got `answer` first. Lanes without `want` take part.
    // `start(want, timeout_ns)` submits one for each lane with `want`, and returns its token.
    template <class Start> WARPBELL_D status run(bool want, status answer, Start start) {
        bool on = tries_.follow(group_, want, answer);
        bool again = want && tries_.again(answer);
        while (on && group_.ballot(again) != 0) {
            const u64 clock_ns = group_.broadcast(port::clock_ns());
            const bool go = again && tries_.is_due(clock_ns);
            if (group_.ballot(go) == 0) {
                // Nobody is due. Whoever shares the queue gets his answers meanwhile.
                (void)s_.queue().reap(group_);
                port::pause();
                continue;
            }
            const u64 rest = tries_.left_ns(clock_ns);
            io_token token = start(go, rest);
            const status next = s_.queue().wait(group_, move(token), rest);
            answer = go ? next : answer;
            on = tries_.follow(group_, go, answer);
            again = go ? tries_.again(answer) : again;
        }
        return answer;
    }

  private:
    const Group& group_;
    session<Mode, Retry>& s_;
    attempts<Group, Mode, Retry> tries_;
};

} // namespace detail
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
