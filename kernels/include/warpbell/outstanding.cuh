// Several commands of a lane at a time: tokens of submit_each, of any kinds of command, or of the queue.
//
// | call                  | who calls | result                                                   |
// | --------------------- | --------- | -------------------------------------------------------- |
// | wait_any              | the group | which of the lane's tokens was answered, and its status  |
// | wait_all              | the group | success, or a status of the lane's that is none          |
// | cancel, cancel_each   | the group | what became of the command                               |
//
// A lane may have as many commands in flight as it has ids (queue::free_ids; AttachOptions says how many), on
// a queue of any depth: whoever waits for room reaps meanwhile. A lane without a free id is refused with
// no_cid at once: it waits for one of its own commands first.
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

struct any_status {
    static constexpr u32 none = ~0u;
    u32 index = none; // of the token that was answered, and is empty now
    status result;
};

// Waits until one of the lane's tokens has its answer: of several the first in the array. Empty tokens are
// passed over; a lane that has no other gets none, and success. At the deadline: none, and timed_out; nothing
// is given up, the tokens can be waited for again.
template <class Group, sharing Mode, class Retry, u32 Count>
WARPBELL_D any_status wait_any(const Group& group, session<Mode, Retry>& s, io_token (&tokens)[Count],
                               u64 timeout_ns = 0);

// Waits for all of the lane's tokens, with one deadline. Success, or else: a status that leaves a buffer to
// the SSD before any other, then the first in the array.
template <class Group, sharing Mode, class Retry, u32 Count>
WARPBELL_D status wait_all(const Group& group, session<Mode, Retry>& s, io_token (&tokens)[Count],
                           u64 timeout_ns = 0);

// Waits no longer. A command that has completed, or was never submitted, is answered with what became of it.
// Any other is answered timed_out: the host is told, and with recovery aborts it; until then the SSD may
// use its buffer. `cancel` for tokens of calls with the same arguments in each lane, one answer in every
// lane; else cancel_each.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status cancel(const Group& group, session<Mode, Retry>& s, io_token&& token);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status cancel_each(const Group& group, session<Mode, Retry>& s, io_token&& token);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/outstanding.cuh"
