// Requests in an order: each is sent after those before it, or only answered after them.
//
//   using namespace wb::experimental;            // this header's names may change in any release
//   io_order<ordering::completion, 8> log;       // the caller's; up to eight requests at a time
//   const wb::extent at = {wb::lba{i}, 1};
//   wb::status said = wb::submit_each(warp, ssd, log, wb::command::write(at, entry));
//   said = wb::submit(warp, ssd, log, wb::command::flush()); // sent once all entries have completed
//   said = wb::submit(warp, ssd, log, wb::command::write({wb::lba{0}, 1}, commit));
//   ordered_answer a = wb::take(warp, ssd, log); // of the oldest: a.result, a.bytes
//
// | class                            | a request is sent                             | answers are taken |
// | -------------------------------- | --------------------------------------------- | ----------------- |
// | unordered: all other calls       | at once                                       | in any order      |
// | `ordering::completion`           | when all before it in its class completed     | in order          |
// | `ordering::delivery`             | as soon as those before it were sent          | in order          |
//
// | call                | who calls | result                     |
// | ------------------- | --------- | -------------------------- |
// | submit, submit_each | the group | success; no_room           |
// | try_take            | the group | the oldest, if it is done  |
// | take                | the group | the oldest; invalid_field  |
//
// A class is a group's: the requests of all its lanes in one call are one step, in no order among themselves.
// Warps do not wait for each other; what has to be ordered over warps is made by one of them. Only calls with
// the same object are ordered, and only they send what waits: a step goes when its group submits, polls or
// takes. no_room: `Depth` steps have not been taken, nothing was posted. invalid_field: there is none to
// take.
//
// `completion`: when a step fails, in any lane, what was posted behind it is answered `aborted` and not sent,
// until all of that has been taken. `delivery`: a failure is one request's. An SSD executes commands in any
// order, also one that completes them in the order of submission: for writes of the same blocks use
// `completion`.
//
// Requests may be of any size, each with at most `Commands` commands per lane in flight (requests.cuh). A
// take that ends at its deadline gives the oldest step up, and answers it timed_out or not_submitted.
#pragma once

#include "requests.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace experimental {

enum class ordering : u32 { completion, delivery };

struct ordered_answer {
    status result;
    u64 bytes = 0; // from the request's start on, as far as it was moved without a gap
};

template <ordering Order, u32 Depth, u32 Commands = 1> class io_order {
  public:
    static_assert(Depth >= 1 && Depth <= 32, "1 to 32 steps");

    WARPBELL_D io_order() {}
    io_order(const io_order&) = delete;
    io_order& operator=(const io_order&) = delete;

    // Steps posted and not taken.
    WARPBELL_D u32 size() const { return count_; }

    // `whole`: one request of the group's, else one of each lane.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D status post(const Group& group, session<Mode, Retry>& s, const command& what, bool whole);
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D optional<ordered_answer> try_take(const Group& group, session<Mode, Retry>& s);
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D ordered_answer take(const Group& group, session<Mode, Retry>& s, u64 timeout_ns);

  private:
    // Step `k` of those that were not taken.
    WARPBELL_D io_request<Commands>& step(u32 k) { return steps_[(oldest_ + k) % Depth]; }
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D void advance(const Group& group, session<Mode, Retry>& s);
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D void run_in_turn(const Group& group, session<Mode, Retry>& s);
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D void run_at_once(const Group& group, session<Mode, Retry>& s);
    template <class Group> WARPBELL_D u32 first_done(const Group& group);
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D ordered_answer hand_over(const Group& group, session<Mode, Retry>& s, u32 k);

    // The same in each lane of the group.
    u32 oldest_ = 0;      // place of the oldest step that was not taken,
    u32 count_ = 0;       // how many there are,
    u32 completed_ = 0;   // and of `completion`, how many of these are done
    bool broken_ = false; // one of them has failed
    io_request<Commands> steps_[Depth];
};

} // namespace experimental

template <class Group, sharing Mode, class Retry, experimental::ordering Order, u32 Depth, u32 Commands>
WARPBELL_D status submit(const Group& group, session<Mode, Retry>& s,
                         experimental::io_order<Order, Depth, Commands>& order, const command& what) {
    return order.post(group_of(group), s, what, true);
}
template <class Group, sharing Mode, class Retry, experimental::ordering Order, u32 Depth, u32 Commands>
WARPBELL_D status submit_each(const Group& group, session<Mode, Retry>& s,
                              experimental::io_order<Order, Depth, Commands>& order, const command& mine) {
    return order.post(group_of(group), s, mine, false);
}
template <class Group, sharing Mode, class Retry, experimental::ordering Order, u32 Depth, u32 Commands>
WARPBELL_D optional<experimental::ordered_answer>
try_take(const Group& group, session<Mode, Retry>& s, experimental::io_order<Order, Depth, Commands>& order) {
    return order.try_take(group_of(group), s);
}
template <class Group, sharing Mode, class Retry, experimental::ordering Order, u32 Depth, u32 Commands>
WARPBELL_D experimental::ordered_answer take(const Group& group, session<Mode, Retry>& s,
                                             experimental::io_order<Order, Depth, Commands>& order,
                                             u64 timeout_ns = 0) {
    return order.take(group_of(group), s, timeout_ns);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/ordered.cuh"
