// Requests of any size that run while the caller does something else.
//
//   wb::io_request<4> request; // the caller's: up to four commands of each lane are in flight
//   const wb::command what = wb::command::read(wb::extent{wb::lba{0}, 100000}, data);
//   wb::status begun = wb::submit(warp, ssd, request, what);
//   ..                                           // compute
//   wb::status s = wb::wait(warp, ssd, request); // and request.bytes()
//
// | call               | who calls | arguments             | result                   |
// | ------------------ | --------- | --------------------- | ------------------------ |
// | submit             | the group | the same in each lane | success; no_room         |
// | submit_each        | the group | each lane its own     | success; no_room         |
// | try_wait           | the group |                       | the answer, if it is due |
// | wait               | the group |                       | the answer               |
// | cancel             | the group |                       | what became of it        |
// | io_request::bytes  | any lane  |                       | once it was answered     |
//
// One request, one answer: by a failure that leaves its buffer to the SSD before any other, else by that of
// its first command that failed. Of one made with arguments that are the same in each lane: the same in each
// lane. What is refused is answered so, by wait. no_room: the request was not answered yet, nothing was
// begun.
//
// As many commands are sent at first as the object holds, the lane has ids for (queue::free_ids) and the
// queue has room for; the others as those before them complete, by whoever waits for the request, or polls
// it. After a failure only those before it are still sent. A lane that has no id for a request's first
// command is refused with no_cid by wait, as it would wait for itself.
//
// The policy of the session for retries is not used. A request that goes out of scope unanswered leaks its
// ids as a token does.
#pragma once

#include "io.cuh"
#include "outstanding.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <u32 Commands> class io_request {
  public:
    static_assert(Commands >= 1 && Commands <= 32, "1 to 32 commands of a lane");

    WARPBELL_D io_request() {}
    io_request(const io_request&) = delete;
    io_request& operator=(const io_request&) = delete;

    // It was begun, and has no answer yet.
    WARPBELL_D bool pending() const { return state_ != idle; }
    // From the request's start on, as far as they were moved without a gap. Of one that was answered.
    WARPBELL_D u64 bytes() const { return bytes_; }

    // ---- for the calls below, and for layers above them. All are made by the group.

    // Takes a request, and sends nothing. `whole`: one of the group's, else one of each lane.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D status begin(const Group& group, const session<Mode, Retry>& s, const command& what,
                            bool whole);
    // Takes answers, then sends what there is room for. `patient`: lanes without ids will have some.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D void advance(const Group& group, session<Mode, Retry>& s, bool patient = false);
    // This lane has no commands in flight, and sends none any more.
    WARPBELL_D bool is_done() const;
    // This lane has sent all it will ever send.
    WARPBELL_D bool is_sent() const { return next_ >= end_; }
    // Gives up what is in flight. `unsent`: what is said if that is nothing.
    template <sharing Mode, class Retry> WARPBELL_D void give_up(session<Mode, Retry>& s, status unsent);
    // The answer; each lane is done.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D status finish(const Group& group, const session<Mode, Retry>& s);
    WARPBELL_D bool is_whole() const { return state_ == of_group; }
    WARPBELL_D status result() const { return result_; }

  private:
    static constexpr u32 idle = 0, of_group = 1, of_lane = 2;
    static constexpr u32 none = ~0u;

    WARPBELL_D opcode op() const { return static_cast<opcode>(what_ & 0xffu); }
    WARPBELL_D bool in_flight() const;
    WARPBELL_D u32 free_place() const;
    WARPBELL_D void note(u32 piece, status said);
    WARPBELL_D void end_before(u32 piece);
    template <class Group> WARPBELL_D void end_before_failures(const Group& group);
    template <sharing Mode, class Retry> WARPBELL_D void settle(session<Mode, Retry>& s);
    template <sharing Mode, class Retry>
    WARPBELL_D sqe entry(const session<Mode, Retry>& s, status& refusal) const;
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D bool send(const Group& group, session<Mode, Retry>& s, bool patient);
    template <class Group> WARPBELL_D void gather(const Group& group);

    io_token tokens_[Commands];
    u32 pieces_[Commands] = {};
    u32 state_ = idle;
    u32 what_ = 0; // 7:0 opcode; 31:16 of its dword 12
    extent where_;
    dma_span data_;
    u32 next_ = 0, step_ = 1; // pieces of this lane: the next one, and how far the one behind it is
    u32 total_ = 0;           // pieces of the request
    u32 end_ = 0;             // of what is sent: all, or what lies before the first failure
    u32 failed_ = none;       // the first of this lane's that failed,
    status result_;           // and what was said
    u64 bytes_ = 0;
};

// One request of the group's. A deallocation is no request: its token is all that it needs.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status submit(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                         const command& what);
// One of each lane.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status submit_each(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                              const command& mine);

// The answer of a request that was answered before is given again.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D optional<status> try_wait(const Group& group, session<Mode, Retry>& s,
                                     io_request<Commands>& request);
// At the deadline: timed_out where a command was in flight, not_submitted where none was.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status wait(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                       u64 timeout_ns = 0);
// As the deadline's, now; aborted where no command was in flight.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status cancel(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/requests.cuh"
