// How a blocking call sends the pieces of its I/O: each lane has one in flight, and sends its next as soon as
// that one is answered, whatever becomes of the other lanes'.
#pragma once

#include "../io.cuh"
#include "retry.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace detail {

// The pieces of a lane: those at `next`, `next + step` and so on before `end`. `whole`: of one I/O of the
// group, of which nothing is sent behind the first failure of any lane.
struct lane_pieces {
    u32 next, end, step;
    bool whole;
};

// What became of a lane's pieces: its first failure, and of which.
struct lane_answer {
    status result;
    u32 at;
};

// The group's answer, in every lane: a failure that leaves its buffer to the controller before any other,
// else that of the first piece.
template <class Group> WARPBELL_D status agree(const Group& group, const lane_answer& mine) {
    const u32 failed = group.ballot(!mine.result.ok());
    if (failed == 0) {
        return status();
    }
    if (mutate::group_failure_hidden) {
        return mine.result;
    }
    const u32 in_use = mutate::in_use_hidden ? 0 : group.ballot(mine.result.buffer_in_use());
    u32 first = ~0u, bits = 0;
    WARPBELL_NO_UNROLL
    for (u32 left = in_use ? in_use : failed; left != 0; left &= left - 1u) {
        const u32 at = group.from(port::lowest(left), mine.at);
        const u32 said = group.from(port::lowest(left), static_cast<u32>(mine.result.bits));
        bits = at < first ? said : bits;
        first = at < first ? at : first;
    }
    return status::from_bits(bits);
}

// `Make`: `make(at, refusal)` is the entry of the piece at `at`; or `refusal` says why there is none.
template <class Group, sharing Mode, class Retry, class Make> class piece_loop {
  public:
    WARPBELL_D piece_loop(const Group& group, session<Mode, Retry>& s, const lane_pieces& mine,
                          const Make& make, u64 timeout_ns)
        : make_(make), mine_(mine), backoff_(timeout_ns), timeout_ns_(timeout_ns),
          tries_(group, s, timeout_ns) {}

    WARPBELL_D lane_answer run(const Group& group, session<Mode, Retry>& s) {
        bool on = true;
        while (on && group.ballot(token_.valid() || is_left()) != 0) {
            submit(group, s);
            on = wait(group, s);
            if (mine_.whole) {
                end_before_failures(group);
            }
        }
        if (is_left() && answer_.result.ok()) {
            answer_ = {tries_.last_or(s.queue().unsent()), mine_.next};
        }
        return answer_;
    }

  private:
    WARPBELL_D bool is_left() const { return mine_.next < mine_.end; }

    WARPBELL_D void submit(const Group& group, session<Mode, Retry>& s) {
        const bool want = is_left() && !token_.valid() && tries_.is_due();
        if (group.ballot(want) == 0) {
            return;
        }
        if (mutate::deadline_of_each_round) {
            backoff_ = backoff(timeout_ns_);
        }
        // The poll that finds the deadline over still collects; nothing is sent after it.
        if (is_over(group, backoff_) && !mutate::piece_after_deadline) {
            return;
        }
        status refusal;
        sqe entry = {};
        if (want) {
            entry = make_(s, mine_.next, refusal);
        }
        io_token sent = s.queue().submit(group, want && refusal.ok(), entry, backoff_);
        if (want) {
            token_ = refusal.ok() || mutate::refusal_forgotten ? move(sent) : io_token::refused(refusal);
        }
    }

    // False: nothing more is to be sent.
    WARPBELL_D bool wait(const Group& group, session<Mode, Retry>& s) {
        const bool waits = token_.valid();
        const bool more = is_left() && (!waits || mine_.end - mine_.next > mine_.step);
        status said;
        const bool stops = more && !(waits && mutate::pieces_in_rounds);
        const progress_result did = s.queue().wait_some(group, token_, said, stops, backoff_);
        bool answered = waits && !token_.valid();
        const bool lost = Retry::enabled && group.ballot(answered && said.is(code::queue_lost)) != 0;
        if (lost && token_.in_flight()) { // the others have met the loss in their submissions
            said = s.queue().abandon(move(token_));
            answered = true;
        }
        const bool on = tries_.follow(group, answered, said);
        if (lost) {
            backoff_ = backoff(tries_.left_ns(port::clock_ns()));
        }
        if (answered && !tries_.again(said)) {
            if (answer_.result.ok() && !said.ok()) {
                answer_ = {said, mine_.next};
                mine_.end = mutate::split_goes_on ? mine_.end : 0;
            }
            mine_.next = more ? mine_.next + mine_.step : mine_.end;
        }
        return on && did != progress_result::expired;
    }

    WARPBELL_D void end_before_failures(const Group& group) {
        WARPBELL_NO_UNROLL
        for (u32 left = mutate::split_goes_on ? 0 : group.ballot(!answer_.result.ok()); left != 0;
             left &= left - 1u) {
            const u32 at = group.from(port::lowest(left), answer_.at);
            mine_.end = at < mine_.end ? at : mine_.end;
        }
    }

    const Make make_;
    lane_pieces mine_;
    backoff backoff_;
    const u64 timeout_ns_;
    attempts<Group, Mode, Retry> tries_;
    io_token token_;
    lane_answer answer_ = {status(), 0};
};

template <class Group, sharing Mode, class Retry, class Make>
WARPBELL_D lane_answer run_pieces(const Group& group, session<Mode, Retry>& s, const lane_pieces& mine,
                                  const Make& make, u64 timeout_ns) {
    return piece_loop<Group, Mode, Retry, Make>(group, s, mine, make, timeout_ns).run(group, s);
}

} // namespace detail
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
