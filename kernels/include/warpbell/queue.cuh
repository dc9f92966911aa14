// Raw commands: submission entries in, statuses out. The layer below io.cuh.
//
// | call                      | who calls            | must be uniform      | result               |
// | queue(group, ref, slot)   | the group            | ref, slot            | attached             |
// | try_submit, submit        | the group            | nothing              | one token per lane   |
// | try_wait                  | any lane             | nothing              | its own status       |
// | wait                      | the group            | deadline             | each lane's status   |
// | reap, progress            | the group            | nothing              | what happened        |
// | switch_to_successor       | the group            | deadline             | success, or why not  |
// | detach                    | the group            |                      |                      |
//
// A shared queue may be used by any warps, each with a warp slot of its own, and by any group of a
// warp's lanes (group.cuh). An exclusive queue belongs to the group that attached: every call but
// try_wait is made by all of that group's lanes together; lanes with nothing to submit pass want = false.
//
// A call never blocks beyond its deadline, and never waits for another warp that itself waits for the
// controller. Each submitted command yields exactly one status. Of all groups that wait on a shared queue one
// polls the completion ring and collects for the others, at once and whatever has come, until its own
// commands are answered; then another one goes on. No service warp is needed.
//
// A command that was in flight at its deadline is answered `timed_out` and its id is quarantined until
// its completion shows up. Until then the controller may still use its buffer. The id comes back when
// the lane next waits, makes progress or runs out of ids in submit, which then reaps once.
//
// A queue that the host gives up answers `queue_lost`. Lanes that call together may then go on
// together: to the queue that the host puts in its place, as soon as the controller has forgotten the old
// one.
#pragma once

#include "group.cuh"
#include "mutation.cuh"
#include "token.cuh"
#include "trace.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

enum class sharing : u32 {
    exclusive = WARPBELL_SHARING_EXCLUSIVE, // one group owns the pair: no atomic operation anywhere
    shared = WARPBELL_SHARING_SHARED,
};

// A submission entry. The queue fills in the command id (dword 0, bits 31:16).
struct alignas(16) sqe {
    u32 dword[16];
};
static_assert(sizeof(sqe) == 64, "NVMe Base 2.0, 3.3.3.1");

class backoff;
namespace detail {
template <class Group> WARPBELL_D bool is_over(const Group& group, const backoff& patience);
} // namespace detail

// How long a lane polls, and how. One per wait.
class backoff {
  public:
    // From the first poll on. 0: the queue's default.
    WARPBELL_D explicit backoff(u64 timeout_ns = 0) : timeout_ns_(timeout_ns) {}

  private:
    template <sharing> friend class queue;
    template <class Group>
    friend WARPBELL_D bool detail::is_over(const Group& group, const backoff& patience);
    u64 timeout_ns_;
    u64 end_ns_ = 0; // 0: the clock was not read yet
    u32 polls_ = 0;
    u32 empty_polls_ = 0;    // since something was found, as far as that lengthens a pause
    u32 head_ = 0;           // of the completions; the last value seen
    u64 reported_ = 0;       // of the poller: what the controller knows to be collected
    bool owes_room_ = false; // of the poller: it has reported, and nobody has the room yet
    bool is_poller_ = false; // its group holds the lock: it polls the ring for all who wait
    bool final_ = false;
};

namespace detail {
// Whether a poll of the group has found the deadline over.
template <class Group> WARPBELL_D bool is_over(const Group& group, const backoff& patience) {
    return group.ballot(patience.final_) != 0; // the leader knows
}
} // namespace detail

// What polling led to.
enum class progress_result : u32 {
    idle,    // nothing has come
    reaped,  // commands were completed: this group's, or others'
    expired, // the deadline of the backoff has passed
    lost,    // the host has given the queue up
};

namespace detail {
// Entries that a lane takes in one round trip to the ring.
template <class Group> inline constexpr u32 entries_per_lane = 1;
template <> inline constexpr u32 entries_per_lane<this_thread_t> = port::entries_together;
// Whether lanes help each other to write submission entries.
template <class Group> inline constexpr bool writes_whole_entries = false;
template <> inline constexpr bool writes_whole_entries<this_warp_t> = WARPBELL_COALESCED_ENTRIES != 0;

// What a lane keeps of the reference to the queue that it is attached to: the fields of warpbell_queue_ref
// that are read after attaching. A session lies in a lane's memory, so each word costs stack.
struct queue_addresses {
    // As there, in a row: kernels/src/abi.rs makes sure of it.
    u64 sq, cq, sq_doorbell, cq_doorbell, state, words, host, quarantine, timeout_ns;
};
struct attached_queue : queue_addresses {
    u32 cq_doorbell_batch, warp_slots, qid, epoch, flags;
    u8 sq_shift, ring_shift, local_bits, token_shift;

    WARPBELL_D void keep(const warpbell_queue_ref& ref) {
        port::copy_struct<queue_addresses>(*this, reinterpret_cast<u64>(&ref.sq));
        cq_doorbell_batch = ref.cq_doorbell_batch, flags = ref.flags;
        warp_slots = ref.warp_slots, qid = ref.qid, epoch = ref.epoch;
        sq_shift = static_cast<u8>(ref.sq_shift), ring_shift = static_cast<u8>(ref.ring_shift);
        local_bits = static_cast<u8>(ref.local_bits), token_shift = static_cast<u8>(ref.token_shift);
    }
};
static_assert(sizeof(attached_queue) == 96, "no padding");
} // namespace detail

template <sharing Mode> class queue : tracer {
  public:
    // Attaches the calling warp. Ids of commands that an earlier kernel left in flight stay out of use
    // until they complete. Lanes that will call together attach together. A queue that the host has given
    // up refuses everything with queue_lost, until switch_to_successor.
    template <class Group>
    WARPBELL_D queue(const Group& group, const warpbell_queue_ref& ref, u32 warp_slot) {
        attach(group, ref, warp_slot);
    }
    // A lane that goes without having detached releases its hazard slot, and saves nothing.
    WARPBELL_D ~queue() { leave(); }
    queue(const queue&) = delete;
    queue& operator=(const queue&) = delete;

    // Submits one command for each lane with `want`, as far as there is room now; the other lanes'
    // tokens are refused with no_room. Empty tokens where `want` is false.
    template <class Group> WARPBELL_D io_token try_submit(const Group& group, bool want, const sqe& entry);
    // The same, waiting for room until the deadline: lanes that were not submitted by then are refused
    // with not_submitted. Batches may be split; each part is on its way before the rest waits.
    template <class Group>
    WARPBELL_D io_token submit(const Group& group, bool want, const sqe& entry, u64 timeout_ns = 0);
    // The same with a deadline that several calls have together.
    template <class Group>
    WARPBELL_D io_token submit(const Group& group, bool want, const sqe& entry, backoff& backoff);
    // All lanes' commands in consecutive slots under one doorbell, or none of them.
    template <class Group>
    WARPBELL_D io_token submit_whole(const Group& group, bool want, const sqe& entry, u64 timeout_ns = 0);

    // The status, if the command has completed; consumes the token then. After it, the data that the
    // command read is visible to this lane.
    WARPBELL_D optional<status> try_wait(io_token& token);
    // The same by all lanes of a group in one go: one fence for all of them.
    template <class Group> WARPBELL_D optional<status> try_wait(const Group& group, io_token& token);
    // Whether try_wait would have a status, or a reason for none. Consumes nothing.
    WARPBELL_D bool is_answered(const io_token& token) const;
    // Which of this lane's commands have their answer, of those in flight on the queue that it is attached to
    // now: bit id(token). For whoever has many. try_wait makes their data visible. All bits if the queue is
    // lost.
    WARPBELL_D u32 answered() const;
    // Which of the lane's ids such a token has; of any other token some number, which may be no bit's.
    WARPBELL_D u32 id(const io_token& token) const { return (token.cid() - first_cid_) & 0xffffu; }
    // Waits for each lane's own command. Lanes with an empty token take part and get success.
    template <class Group> WARPBELL_D status wait(const Group& group, io_token&& token, u64 timeout_ns = 0);
    // Waits, but only until a lane can go on: one that has failed, or that has `more` to submit and no
    // command in flight. Lanes whose commands are in flight then keep their tokens. Polls once where a lane
    // could go on from the beginning. expired, lost: no token is left.
    template <class Group>
    WARPBELL_D progress_result wait_some(const Group& group, io_token& token, status& result, bool more,
                                         backoff& backoff);
    // Waits for each lane's own command, with a deadline that several calls have together.
    template <class Group>
    WARPBELL_D progress_result wait_all(const Group& group, io_token& token, status& result,
                                        backoff& backoff);
    // What a deadline of 0 stands for.
    WARPBELL_D u64 deadline(u64 timeout_ns) const;

    // Gives a command in flight up, as if its deadline had passed: timed_out, and its id is quarantined. Of
    // one that has completed meanwhile: its status.
    WARPBELL_D status abandon(io_token&& token);

    // Collects whatever has completed.
    template <class Group> WARPBELL_D progress_result reap(const Group& group);
    // Polls so many times at most, and collects whatever has come; until a command of the group has its
    // answer.
    template <class Group>
    WARPBELL_D progress_result progress(const Group& group, backoff& backoff,
                                        u32 polls = port::polls_per_call());

    // After queue_lost: waits for the queue in place of this one, and attaches to it. Success: all buffers
    // of this lane's earlier commands are free, and what is left of their tokens is answered queue_lost.
    // queue_lost: none came by the deadline; it can be tried again. ssd_lost: none will come. A queue that
    // is not lost is left as it is.
    template <class Group> WARPBELL_D status switch_to_successor(const Group& group, u64 timeout_ns = 0);
    // The same, if its successor is there already.
    template <class Group> WARPBELL_D status try_switch_to_successor(const Group& group);

    // Exclusive: saves the counters for the next kernel. Everything is refused afterwards, and tokens that
    // are left are answered queue_lost.
    template <class Group> WARPBELL_D void detach(const Group& group);

    WARPBELL_D u32 entries() const { return 1u << ref_.sq_shift; }
    // The controller completes its commands in the order of submission: where one is outstanding, so is
    // whatever was submitted to this queue after it.
    WARPBELL_D bool completes_in_order() const { return (ref_.flags & WARPBELL_QUEUE_IN_ORDER) != 0; }
    // Commands that this lane could submit before it has to wait for one of its own.
    WARPBELL_D u32 free_ids() const { return port::population(free_); }
    // Whether the id of a command of this lane that timed out is still out of use, and its buffer with it.
    WARPBELL_D bool quarantined(u32 cid) const {
        return (quarantine_ >> ((cid - first_cid_) & 31u) & 1u) != 0;
    }
    // Shared: a warp has found the queue lost, whether or not this one has met it.
    WARPBELL_D bool is_closed() const {
        return is_shared && (port::load_relaxed_gpu(&state()->ticket) & WARPBELL_TICKET_CLOSED) != 0;
    }
    // Everything is refused: the queue is lost, or was never attached.
    WARPBELL_D bool refuses() const { return refusal_ != 0; }
    // With what: invalid_field of one that was never attached. Else success.
    WARPBELL_D status refusal() const { return status::from_bits(refusal_ & 0xffffu); }
    // Of a command that was not sent before its deadline: with what the queue refuses it, else not_submitted.
    WARPBELL_D status unsent() const { return refuses() ? refusal() : status(code::not_submitted); }
    // Of the queue that it is attached to now: each queue that the host puts in a lost one's place has the
    // next epoch.
    WARPBELL_D const detail::attached_queue& ref() const { return ref_; }

  private:
    static constexpr bool is_shared = Mode == sharing::shared;
    static constexpr u32 no_id = ~0u; // what port::lowest_if_any says of an empty mask
    static constexpr u32 batch_max = WARPBELL_WARP_LANES;
    static constexpr u32 most_ids = 32; // of a lane: bits of a mask

    // What a leader tells its group, in one broadcast: kind 31:29, count 28:23, low bits of an index 22:0.
    // Rings have at most 2^16 entries, so those bits hold the slot and the lap's parity.
    // others: another group polls the ring, or did until now: what it collected may be this group's.
    enum class step : u32 { idle, granted, reap, expired, lost, others };
    static constexpr u32 index_bits = (1u << 23) - 1u;
    WARPBELL_D static u32 pack(step kind) { return static_cast<u32>(kind) << 29; }
    WARPBELL_D static u32 pack(step kind, u32 count, u64 index) {
        return ((static_cast<u32>(kind) << 29) + (count << 23)) | (static_cast<u32>(index) & index_bits);
    }
    // Of a poll of the ring the count is marks: the group has become its poller just now; data is flushed.
    // What all lanes have from one broadcast the compiler knows to be alike: a branch on it keeps them
    // together.
    static constexpr u32 new_poller = 1, flushes_data = 2;
    WARPBELL_D u32 pack_poll(u64 index) const {
        return pack(step::reap, (ref_.flags & WARPBELL_QUEUE_FLUSH) != 0 ? flushes_data : 0, index);
    }
    WARPBELL_D static step kind_of(u32 packed) { return static_cast<step>(packed >> 29); }
    WARPBELL_D static u32 count_of(u32 packed) { return packed >> 23 & 63u; }

    // Registers of one lane that attached to an exclusive queue; alike in all lanes of the group.
    struct exclusive_counters {
        u64 tail;        // next index to write
        u32 outstanding; // commands whose completions were not reaped
        u32 unreported;  // completions reaped that the controller does not know to be
        u32 surplus;     // completions reaped that were no pending command's: those are reported at once
        WARPBELL_D void clear() { tail = 0, outstanding = unreported = surplus = 0; }
    };
    // The last values this lane saw of a shared queue, of use when it leads. Stale values are safe:
    // the room only grows.
    struct shared_hints {
        u64 ticket;
        u64 limit;
        u32 turn;   // low half; before the last reservation was made
        u32 others; // 0: nobody else took a ticket between this lane's last reservations
        WARPBELL_D void clear() { ticket = limit = 0, turn = 0, others = 1; }
    };
    // Registers of one lane while it collects.
    struct view {
        u64 ticket;
        u32 surplus;
    };
    template <bool Shared, class A, class B> struct choose {
        using type = A;
    };
    template <class A, class B> struct choose<false, A, B> {
        using type = B;
    };

    detail::attached_queue ref_;
    typename choose<is_shared, shared_hints, exclusive_counters>::type at_;
    u32 lane_id_;    // warp slot * 32 + lane
    u32 first_cid_;  // of this lane's ids on the wire
    u32 free_;       // bit k: this lane's id k may be used
    u32 quarantine_; // bit k: id k timed out, or was in flight at attach
    u32 generation_; // of this lane's latest command
    // 15:0 status bits with which everything is refused: a lost or ill-attached queue; and how much of the
    // queue the lane may still touch.
    u32 refusal_;
    u32 tag_; // 47:32 of this queue's tokens; of no token while the lane has no hazard slot
    static constexpr u32 page_only = 1u << 16; // no more than the host's page
    static constexpr u32 gone = 1u << 17;      // not even that
    static constexpr u32 no_tag = ~0u;
    static constexpr u64 no_successor = 1; // no address

    // ---- addresses
    WARPBELL_D warpbell_queue_state* state() const {
        return reinterpret_cast<warpbell_queue_state*>(ref_.state);
    }
    WARPBELL_D const warpbell_queue_host* host() const {
        return reinterpret_cast<const warpbell_queue_host*>(ref_.host);
    }
    WARPBELL_D u32 sq_mask() const { return (1u << ref_.sq_shift) - 1u; }
    WARPBELL_D u32 cq_mask() const { return (1u << ref_.sq_shift) - 1u; }
    // Commands that may be outstanding: one less than the entries of either ring (they are alike).
    WARPBELL_D u32 cap() const { return sq_mask() + (mutate::room_off_by_one ? 1u : 0u); }
    WARPBELL_D u32 lane_shift() const { return ref_.local_bits - 5u; }
    WARPBELL_D u32 wire_cid(u32 k) const { return first_cid_ | k; }
    WARPBELL_D u32* word(u32 lane_id, u32 k) const {
        return reinterpret_cast<u32*>(ref_.words) + (lane_id << ref_.token_shift | k);
    }
    // Opaque: else the compiler takes three instructions, for the sign of a half.
    WARPBELL_D static bool is_pending(u32 word) { return port::opaque(word & WARPBELL_SLOT_PENDING) != 0; }
    WARPBELL_D u32* quarantine_word() const { return reinterpret_cast<u32*>(ref_.quarantine) + lane_id_; }
    // The half of completion entry `index` that holds SQHD 15:0, SQID 31:16, CID 47:32, phase 48 and
    // status 63:49. One 64-bit load: a controller writes the dword with the phase last.
    WARPBELL_D const u64* completion_at(u32 index) const {
        return reinterpret_cast<const u64*>(ref_.cq) + static_cast<u64>(index & cq_mask()) * 2u + 1u;
    }
    WARPBELL_D u64 completion(u32 index) const { return port::load_relaxed_sys(completion_at(index)); }
    // The same: what the controller wrote before the entry is seen after it.
    WARPBELL_D u64 acquired(u32 index) const { return port::load_acquire_sys(completion_at(index)); }
    // Whether entry `index` was posted in this lap: the phase bit is inverted at each pass, starting
    // at 1 (NVMe Base 2.0, 3.3.3.2). Of the 63-bit index the low bits suffice.
    WARPBELL_D bool posted(u64 entry, u32 index) const {
        u32 lap = (mutate::phase_from_wrapped_head ? index & cq_mask() : index) >> ref_.sq_shift;
        // Opaque: else the compiler compares 64 bits, and each of the two apart.
        return (port::opaque(static_cast<u32>(entry >> 48) ^ lap) & 1u) != 0;
    }
    WARPBELL_D bool ready(u32 index) const { return posted(completion(index), index); }
    // Exclusive: completions reaped, all of them.
    WARPBELL_D u64 reaped() const { return at_.tail + at_.surplus - at_.outstanding; }
    WARPBELL_D bool wide_cids() const { return (ref_.flags & WARPBELL_QUEUE_WIDE_CIDS) != 0; }

    // ---- hazard slots (queue_hazard.cuh)
    WARPBELL_D static bool fits(const warpbell_queue_ref& ref, u32 warp_slot);
    WARPBELL_D static u64 hazards_of(u64 host);
    WARPBELL_D static void leave_hazard(u64 host, u32 lane_id, u32 how);
    WARPBELL_D static u32 take_hazard(u64 host, u32 lane_id);
    template <class Group>
    WARPBELL_NOINLINE void attach(const Group& group, const warpbell_queue_ref& ref, u32 warp_slot);
    template <class Group> WARPBELL_D void begin(const Group& group);
    WARPBELL_D void keep_page_only();
    WARPBELL_NOINLINE void leave();
    WARPBELL_D u64 find_successor(u64 wait_ns) const;
    template <class Group> WARPBELL_D status switch_over(const Group& group, u64 wait_ns);

    // ---- doorbells (queue_doorbell.cuh)
    WARPBELL_D void ring_sq(u32 before, u32 now);
    WARPBELL_D void ring_cq(u32 before, u32 now);
    WARPBELL_NOINLINE bool update_shadow(u32 offset, u32 before, u32 now);

    // ---- command ids (queue_submit.cuh)
    WARPBELL_D u32 take_id();
    WARPBELL_D void release(u32 k) { free_ |= 1u << k; }
    WARPBELL_NOINLINE void rescan_quarantine();

    // ---- submission (queue_submit.cuh)
    template <class Group> WARPBELL_D step poll_for_room(const Group& group, backoff& patience, sqe& entry);
    template <class Group>
    WARPBELL_D step poll_for_room(const Group& group, backoff& patience, const sqe& entry);
    template <class Entry, class Group>
    WARPBELL_D io_token submit_all(const Group& group, bool want, Entry entry, backoff& patience, bool whole);
    template <class Group> WARPBELL_D u32 ask_for_room(const Group& group, u32 n, bool whole);
    WARPBELL_D u32 reserve(u32 n, u32 least);
    template <class Group>
    WARPBELL_D void use_grant(const Group& group, u32 granted, u32 waiting, u32& k, const sqe& entry,
                              io_token& token);
    WARPBELL_D void arm(u32 k);
    WARPBELL_D u32* entry_at(u32 index) const;
    WARPBELL_D void write_entry(u32 index, u32 k, const sqe& entry);
    WARPBELL_D void write_entries(u32 first, u32 writers, u32 k, const sqe& entry);
    template <class Group> WARPBELL_D void publish(const Group& group, u32 count);
    WARPBELL_D u32 wait_for_turn(u32 from, u32 until);
    WARPBELL_D void ring_in_turn(u64 begin, u64 end);
    WARPBELL_D void withdraw(u32 k, status why, io_token& token);

    // ---- completion (queue_poll.cuh, queue_reap.cuh)
    template <class Group>
    WARPBELL_NOINLINE step poll_ring(const Group& group, backoff& backoff, bool in_submit);
    WARPBELL_D u32 collect_for_group(u32 next, bool in_submit, backoff& backoff);
    template <class Group>
    WARPBELL_D bool follow_leader(const Group& group, u32 next, bool in_submit, backoff& backoff);
    WARPBELL_D u32 leader_poll(backoff& backoff, bool in_submit);
    WARPBELL_D u32 poll_once(backoff& backoff);
    WARPBELL_D bool has_news(backoff& backoff, u32 next) const;
    WARPBELL_D bool take_lock(u64 seen, backoff& backoff);
    WARPBELL_D bool become_poller(backoff& backoff);
    WARPBELL_D void release_poller(backoff& backoff, bool fenced);
    WARPBELL_D void publish_room(u64 reap, bool fenced);
    WARPBELL_D bool nothing_outstanding() const;
    WARPBELL_D static bool clock_is_due(backoff& backoff);
    WARPBELL_NOINLINE bool clock_says_stop(backoff& backoff, bool& lost);
    template <class Group>
    WARPBELL_D bool collect(const Group& group, u32 from, bool keep, bool report_all, backoff& backoff);
    template <class Group> WARPBELL_D u32 load_run(const Group& group, u32 first, u64 (&entry)[1]);
    WARPBELL_D u32 load_run(const this_thread_t&, u32 first, u64 (&entry)[port::entries_together]);
    template <class Group> WARPBELL_NOINLINE bool flush_data(const Group& group);
    WARPBELL_D view view_now() const;
    template <class Group>
    WARPBELL_D void deliver_run(const Group& group, u32 first, u32 run, const u64 (&entry)[1],
                                const view& now, u32& surplus);
    WARPBELL_D void deliver_run(const this_thread_t&, u32 first, u32 run,
                                u64 (&entry)[port::entries_together], const view& now, u32& surplus);
    WARPBELL_D u32 cid_of(u64 entry, u32 index) const;
    WARPBELL_D bool deliver(u32 cid, u32 wire_status, bool repeated, u32 rank);
    WARPBELL_D void compare_sqhd(u64 entry, u32 completed, const view& now);
    template <class Group>
    WARPBELL_D void finish_collect(const Group& group, const view& now, u32 count, u32 surplus, bool keep,
                                   bool report_all, backoff& backoff);
    WARPBELL_D void report_if_due(const view& now, u32 count, u32 surplus, bool keep, bool report_all,
                                  u32 batch, backoff& backoff);
    WARPBELL_D void give_room(backoff& backoff);
    WARPBELL_D void report(bool leader);
    WARPBELL_D void close();

    // ---- waiting (queue_wait.cuh)
    template <bool Some, class Group>
    WARPBELL_D progress_result wait_until(const Group& group, io_token& token, status& result, bool more,
                                          backoff& backoff);
    WARPBELL_D bool settle(io_token& token, status& result);
    WARPBELL_NOINLINE status end_unanswered(u32 command, bool is_lost);
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/queue_doorbell.cuh"
#include "impl/queue_hazard.cuh"
#include "impl/queue_poll.cuh"
#include "impl/queue_reap.cuh"
#include "impl/queue_submit.cuh"
#include "impl/queue_wait.cuh"
