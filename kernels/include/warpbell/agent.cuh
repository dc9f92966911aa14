// Agents: warps that do the I/O of others. A compute warp posts requests in a request queue and takes answers
// out of it; it has no queue, rings no doorbell and looks at no completion. An agent warp has a session, and
// serves some request queues.
//
//   using namespace wb::experimental;          // this header's names may change in any release
//   request_queue<2>* queues = ..;            // zeroed; one for each compute warp, two requests per lane
//   if (warp < agents) {
//       wb::session<wb::sharing::exclusive> ssd(wb::this_warp(), args.ns, warp);
//       agent<wb::sharing::exclusive, 2> serve(ssd, args.buffer, {queues, count, warp, agents});
//       (void)serve.run(stop);                 // until the compute warps have left
//       ssd.detach(wb::this_warp());
//   } else {
//       mail_client<2> io(queues[warp - agents], args.buffer);
//       wb::status s = wb::read_each(wb::this_warp(), io, wb::extent{wb::lba{i}, 1}, mine);
//       io.leave(wb::this_warp());
//   }
//
// | call                             | who calls                     | result                              |
// | -------------------------------- | ----------------------------- | ----------------------------------- |
// | read_each, write_each            | any lanes of the compute warp | each lane's status                  |
// | submit_each -> wait_each         | any lanes, own arguments      | a token per lane; its status        |
// | try_wait                         | any lanes                     | its status, if it is there          |
// | flush                            | all lanes of the group        | the same in each lane               |
// | leave                            | all lanes of the compute warp | last call                           |
// | agent::run                       | all lanes of the agent's warp | what each did, once all is done     |
//
// An agent submits the requests of all its request queues that are ready under one doorbell, and goes on
// where there is no room; what finds none for one deadline is answered `not_submitted`. It submits nothing
// again: the policy of its session is not used. It ends when the warps of all its request queues have left
// and each request was answered; after *stop is not 0 it answers `aborted` to what it has not submitted, and
// waits for those that do not leave for one deadline more. Where its queue is lost, it answers queue_lost to
// what was in flight, and goes on with the queue in its place.
//
// A request that was not answered by the client's deadline (0: 30 s) is answered `timed_out`: an agent, or
// its controller, may still use the buffer. Its slot comes back with the agent's answer. A request is one
// command: at most max_blocks(op) blocks, else too_large. One for blocks or a flush, without flags: else
// invalid_field.
//
// Memory order. A slot has one word, which client lane and agent lane write in turn: no read-modify-write,
// no lock. The fence is the scope's: of the block where the request queues are in its shared memory, else of
// the device.
//   P1 client: data and request, fence, word = request
//   P2 agent:  word == request, fence, then the request
//   P3 agent:  completion seen, fence, word = answer
//   P4 client: word == answer, fence, then the data
#pragma once

#include "impl/back_off.cuh"
#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace experimental {

// ---- policies

// Where request queues are: who sees them.
struct in_block {
    WARPBELL_D static void fence(bool) { port::fence_block(); }
};
struct in_device {
    WARPBELL_D static void fence(bool first) { port::fence_gpu_group(first); }
};

// ---- mail

// The requests of one compute warp, `Slots` per lane. In shared memory, or in the device's: (1 + 9 * Slots) *
// 128 bytes, all zero at first.
template <u32 Slots> struct alignas(WARPBELL_LINE_BYTES) request_queue {
    static_assert(Slots >= 1 && Slots <= 8, "1 to 8 requests per lane");
    u32 word[Slots][WARPBELL_WARP_LANES]; // 0, request_posted, or request_answered | status
    u32 left;                             // the warp posts no more
    u32 pad[31];
    u32 request[Slots][2][WARPBELL_WARP_LANES][4]; // LBA, offset; bytes, blocks, opcode
};
constexpr u32 request_posted = 1u << 31;
constexpr u32 request_answered = 1u << 30;

// A request of a lane that was not answered yet. Move-only; dropping one loses its slot for as long as the
// client lives.
class [[nodiscard]] mail_token {
  public:
    WARPBELL_D mail_token() : bits_(empty) {}
    mail_token(const mail_token&) = delete;
    void operator=(const mail_token&) = delete;
    WARPBELL_D mail_token(mail_token&& other) noexcept : bits_(other.bits_) { other.bits_ = empty; }
    WARPBELL_D void operator=(mail_token&& other) noexcept {
        const u32 bits = other.bits_;
        other.bits_ = empty;
        bits_ = bits;
    }
    // There is an answer to be had.
    WARPBELL_D bool valid() const { return bits_ != empty; }

  private:
    template <u32, class, class> friend class mail_client;
    static constexpr u32 refused = 1u << 30;
    static constexpr u32 empty = refused; // refused with success
    WARPBELL_D explicit mail_token(u32 bits) : bits_(bits) {}
    u32 bits_; // a slot, or refused | status
};

// A lane's way to its warp's request queue. Never touches a queue.
template <u32 Slots, class Scope = in_device, class Pause = eager> class mail_client {
  public:
    WARPBELL_D mail_client(request_queue<Slots>& requests, const warpbell_buffer_ref& buffer,
                           Pause pause = Pause())
        : requests_(requests), buffer_(buffer), pause_(pause), free_((1u << Slots) - 1u), late_(0) {}
    mail_client(request_queue<Slots>& requests, const warpbell_buffer_ref&&, Pause pause = Pause()) = delete;

    // Posts a request of each lane that has one. no_room: all its slots are in use.
    template <class Group> WARPBELL_D mail_token post(const Group& group, const command& mine);
    template <class Group> WARPBELL_D optional<status> try_wait(const Group& group, mail_token& token);
    template <class Group> WARPBELL_D status wait(const Group& group, mail_token&& token, u64 timeout_ns = 0);
    // What was posted is answered all the same; nobody will know.
    template <class Group> WARPBELL_D void leave(const Group& group);

  private:
    WARPBELL_D u32* word(u32 slot) { return &requests_.word[slot][port::lane()]; }
    WARPBELL_D u32 take_slot();
    WARPBELL_D bool settle(mail_token& token, status& result);

    request_queue<Slots>& requests_;
    const warpbell_buffer_ref& buffer_;
    Pause pause_;
    u32 free_; // bit k: slot k may be used
    u32 late_; // bit k: slot k's request timed out
};

// ---- agents

// What an agent serves: request queues index, index + agents, ... of `count`.
template <u32 Slots> struct agent_share {
    request_queue<Slots>* request_queues;
    u32 count, index, agents;
};

// What this lane of an agent did.
struct agent_report {
    u32 requests = 0; // submitted
    u32 batches = 0;  // times that the warp submitted
    u32 refused = 0;  // answered without being submitted
};

template <sharing Mode, u32 Slots, class Scope = in_device, class Pause = eager, class Retry = no_retry>
class agent {
  public:
    WARPBELL_D agent(session<Mode, Retry>& s, const warpbell_buffer_ref& buffer, agent_share<Slots> share,
                     Pause pause = Pause())
        : s_(s), buffer_(buffer), share_(share), pause_(pause) {}
    agent(session<Mode, Retry>& s, const warpbell_buffer_ref&&, agent_share<Slots> share,
          Pause pause = Pause()) = delete;

    // By all lanes of the warp. `stop`, if not null: a word by which the host, or anybody, ends it.
    // `timeout_ns`: for each command, from its submission on.
    WARPBELL_D agent_report run(const u32* stop = nullptr, u64 timeout_ns = 0);

  private:
    static constexpr u32 most = 4; // commands in flight per lane
    static constexpr u32 nobody = ~0u;
    // A request's place, in this lane's eyes: request queue, slot, and the client's lane.
    WARPBELL_D static u32 place(u32 requests, u32 slot, u32 lane) { return requests << 8 | slot << 5 | lane; }
    WARPBELL_D u32* word_at(u32 place) const {
        return &share_.request_queues[place >> 8].word[place >> 5 & 7u][place & 31u];
    }
    WARPBELL_D bool all_left() const;
    WARPBELL_D bool in_flight(u32 place) const;
    WARPBELL_D u32 find_request() const;
    WARPBELL_D bool take(bool stopped, u64 timeout_ns);
    WARPBELL_D bool waits_on(u32 place, status& refusal, u64 timeout_ns);
    WARPBELL_D sqe read_request(u32 place, status& refusal) const;
    WARPBELL_D void answer(u32 place, status said);
    WARPBELL_D bool hand_over(u64 timeout_ns);
    WARPBELL_D bool is_done(u32 f, status& said, u64 now, u64 timeout_ns);

    session<Mode, Retry>& s_;
    const warpbell_buffer_ref& buffer_;
    agent_share<Slots> share_;
    Pause pause_;
    agent_report did_;
    u32 busy_ = 0;         // bit f: flight f is in use
    u32 first_ = 0;        // of the request_queues: where the next poll begins
    u32 put_off_ = nobody; // the request that there was no room for,
    u64 put_off_ns_ = 0;   // and since when
    backoff backoff_;
    io_token tokens_[most];
    u32 places_[most] = {};
    u64 since_[most] = {};
};

} // namespace experimental

// ---- the calls

template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D experimental::mail_token
submit_each(const Group& group, experimental::mail_client<Slots, Scope, Pause>& io, const command& mine) {
    return io.post(group_of(group), mine);
}
template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D optional<status> try_wait(const Group& group, experimental::mail_client<Slots, Scope, Pause>& io,
                                     experimental::mail_token& token) {
    return io.try_wait(group_of(group), token);
}
template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D status wait_each(const Group& group, experimental::mail_client<Slots, Scope, Pause>& io,
                            experimental::mail_token&& token, u64 timeout_ns = 0) {
    return io.wait(group_of(group), move(token), timeout_ns);
}
template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D status read_each(const Group& who, experimental::mail_client<Slots, Scope, Pause>& io,
                            optional<extent> from, const dma_span& to, u64 timeout_ns = 0) {
    const auto group = group_of(who);
    return io.wait(group, io.post(group, command::read(from, to)), timeout_ns);
}
template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D status write_each(const Group& who, experimental::mail_client<Slots, Scope, Pause>& io,
                             optional<extent> to, const dma_span& from, u64 timeout_ns = 0) {
    const auto group = group_of(who);
    return io.wait(group, io.post(group, command::write(to, from)), timeout_ns);
}
// One for the group.
template <class Group, u32 Slots, class Scope, class Pause>
WARPBELL_D status flush(const Group& who, experimental::mail_client<Slots, Scope, Pause>& io,
                        u64 timeout_ns = 0) {
    const auto group = group_of(who);
    experimental::mail_token token = io.post(group, group.is_leader() ? command::flush() : command());
    return detail::agree(group, io.wait(group, move(token), timeout_ns));
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/agent.cuh"
