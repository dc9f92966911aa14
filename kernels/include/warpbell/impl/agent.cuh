// Bodies of agent.cuh: both ends of a request queue.
#pragma once

#include "../agent.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace experimental {

#define WARPBELL_CLIENT(result)                                                                              \
    template <u32 Slots, class Scope, class Pause> WARPBELL_D result mail_client<Slots, Scope, Pause>
#define WARPBELL_CLIENT_CALL(result)                                                                         \
    template <u32 Slots, class Scope, class Pause>                                                           \
    template <class Group>                                                                                   \
    WARPBELL_D result mail_client<Slots, Scope, Pause>
#define WARPBELL_AGENT(result)                                                                               \
    template <sharing Mode, u32 Slots, class Scope, class Pause, class Retry>                                \
    WARPBELL_D result agent<Mode, Slots, Scope, Pause, Retry>

// ---- the client's end

// What an agent has a command for.
WARPBELL_HD constexpr bool is_mail(opcode op) {
    return op == opcode::read || op == opcode::write || op == opcode::compare || op == opcode::write_zeroes ||
           op == opcode::flush;
}

// A free slot, or Slots. What timed out may have been answered by now.
WARPBELL_CLIENT(u32)::take_slot() {
    for (u32 k = 0; k < Slots && free_ == 0 && !mutate::late_slot_lost; ++k) {
        if ((late_ >> k & 1u) != 0 && (port::load_relaxed_any(word(k)) & request_answered) != 0) {
            late_ &= ~(1u << k);
            free_ |= 1u << k;
        }
    }
    if (free_ == 0) {
        return Slots;
    }
    const u32 k = port::lowest(free_);
    free_ &= ~(1u << k);
    return k;
}

WARPBELL_CLIENT_CALL(mail_token)::post(const Group& group, const command& mine) {
    const bool want = mine.where.has_value();
    const opcode op = mine.op;
    const dma_span& data = mine.data;
    const bool moves = want && op != opcode::flush && detail::carries_blocks(op);
    status refusal;
    if (want && (!is_mail(op) || mine.flags != 0) && !mutate::mail_opcode_unchecked) {
        refusal = code::invalid_field;
    } else if (moves && (!data.inside() || (data.buffer().iova != buffer_.iova && !mutate::mail_any_buffer) ||
                         (data.buffer().data != buffer_.data && !mutate::mail_any_buffer))) {
        refusal = code::out_of_buffer; // not of the agents' buffer
    }
    const u32 k = want && refusal.ok() ? take_slot() : Slots;
    if (want && refusal.ok() && k == Slots) {
        refusal = code::no_room;
    }
    if (k != Slots) {
        u32(*request)[WARPBELL_WARP_LANES][4] = requests_.request[k];
        const u64 at = mine.where->start.value, offset = moves ? data.offset() : 0,
                  bytes = moves ? data.bytes() : 0;
        port::store_quad_any(request[0][port::lane()], static_cast<u32>(at), static_cast<u32>(at >> 32),
                             static_cast<u32>(offset), static_cast<u32>(offset >> 32));
        port::store_quad_any(request[1][port::lane()], static_cast<u32>(bytes), static_cast<u32>(bytes >> 32),
                             mine.where->blocks, static_cast<u32>(op));
    }
    if (!mutate::mail_no_fence_post) {
        Scope::fence(group.is_leader()); // P1
    }
    if (k != Slots) {
        port::store_relaxed_any(word(k), request_posted);
    }
    return k != Slots ? mail_token(k) : mail_token(mail_token::refused | refusal.bits);
}

// Whether the token has its answer; consumes it then. A fence has to follow.
WARPBELL_CLIENT(bool)::settle(mail_token& token, status& result) {
    if ((token.bits_ & mail_token::refused) != 0) {
        result = status::from_bits(token.bits_ & ~mail_token::refused);
        token.bits_ = mail_token::empty;
        return true;
    }
    const u32 found = port::load_relaxed_any(word(token.bits_));
    if ((found & request_answered) == 0) {
        return false;
    }
    free_ |= mutate::mail_slot_lost ? 0 : 1u << token.bits_;
    result = status::from_bits(found & ~request_answered);
    token.bits_ = mail_token::empty;
    return true;
}

WARPBELL_CLIENT_CALL(optional<status>)::try_wait(const Group& group, mail_token& token) {
    status result;
    const bool done = settle(token, result);
    if (done && !mutate::mail_no_fence_done) {
        Scope::fence(group.is_leader()); // P4; a poll in vain has nothing to order
    }
    return done ? optional<status>(result) : optional<status>();
}

WARPBELL_CLIENT_CALL(status)::wait(const Group& group, mail_token&& token, u64 timeout_ns) {
    constexpr u64 long_ns = 30ull * 1000 * 1000 * 1000;
    const u64 wait_ns = timeout_ns != 0 ? timeout_ns : long_ns;
    const u64 begin_ns = port::clock_ns();
    status result;
    bool waiting = !settle(token, result);
    while (waiting) {
        pause_.idle();
        const bool late = port::clock_ns() - begin_ns >= wait_ns;
        waiting = !settle(token, result);
        if (waiting && late) {
            // The agent has the slot until it has answered.
            (mutate::mail_slot_reused ? free_ : late_) |= 1u << token.bits_;
            token.bits_ = mail_token::empty;
            result = code::timed_out;
            waiting = false;
        }
    }
    pause_.busy();
    if (!mutate::mail_no_fence_done) {
        Scope::fence(group.is_leader()); // P4, once for all
    }
    return result;
}

WARPBELL_CLIENT_CALL(void)::leave(const Group& who) {
    const auto group = group_of(who);
    group.sync();
    Scope::fence(group.is_leader());
    if (group.is_leader()) {
        port::store_relaxed_any(&requests_.left, 1);
    }
}

// ---- the agent's end

// Each lane looks at some request_queues.
WARPBELL_AGENT(bool)::all_left() const {
    bool waits = false;
    for (u32 requests = share_.index + port::lane() * share_.agents; requests < share_.count;
         requests += WARPBELL_WARP_LANES * share_.agents) {
        waits = waits || port::load_relaxed_any(&share_.request_queues[requests].left) == 0;
    }
    return this_warp().ballot(waits) == 0;
}

WARPBELL_AGENT(bool)::in_flight(u32 place) const {
    for (u32 f = 0; f < most; ++f) {
        if ((busy_ >> f & 1u) != 0 && places_[f] == place && !mutate::request_taken_twice) {
            return true;
        }
    }
    return false;
}

// A request that this lane may take. In each request queue it looks at another client lane, so that those who
// always post by their first lane do not all wait for the same one.
WARPBELL_AGENT(u32)::find_request() const {
    if (busy_ == (1u << most) - 1u) {
        return nobody;
    }
    const u32 step = mutate::every_request_queue_served ? 1u : share_.agents;
    const u32 mine = mutate::every_request_queue_served ? 0u : share_.index;
    const u32 request_queues = (share_.count - mine + step - 1u) / step;
    for (u32 n = 0; n < request_queues; ++n) {
        const u32 requests = mine + (first_ + n) % request_queues * step;
        const u32 lane = (port::lane() + requests) % WARPBELL_WARP_LANES;
        for (u32 slot = 0; slot < Slots; ++slot) {
            const u32 at = place(requests, slot, lane);
            if (port::load_relaxed_any(word_at(at)) == request_posted && !in_flight(at)) {
                return at;
            }
        }
    }
    return nobody;
}

// The command for a request, or why there is none.
WARPBELL_AGENT(sqe)::read_request(u32 place, status& refusal) const {
    const auto& request = share_.request_queues[place >> 8].request[place >> 5 & 7u];
    u32 a, b, c, d, e, f, blocks, op;
    port::load_quad_any(request[0][place & 31u], a, b, c, d);
    port::load_quad_any(request[1][place & 31u], e, f, blocks, op);
    if (op == static_cast<u32>(opcode::flush)) {
        return detail::flush_entry(s_);
    }
    const extent where{lba(static_cast<u64>(b) << 32 | a), blocks};
    const dma_span data =
        dma_span(buffer_).subspan(static_cast<u64>(d) << 32 | c, static_cast<u64>(f) << 32 | e);
    refusal = s_.check(static_cast<opcode>(op), where, data);
    return refusal.ok() ? s_.entry(static_cast<opcode>(op), where, data) : sqe{};
}

// Client: what it posts, and the data, are in the buffer. The fence is the caller's.
WARPBELL_AGENT(void)::answer(u32 place, status said) {
    port::store_relaxed_any(word_at(place), request_answered | said.bits);
}

// Whether a request that was not submitted is tried again. Not for ever: commands that the controller never
// completes may have the room.
WARPBELL_AGENT(bool)::waits_on(u32 place, status& refusal, u64 timeout_ns) {
    if ((!refusal.is(code::no_room) && !refusal.is(code::no_cid)) || mutate::put_off_refused) {
        return false;
    }
    const u64 now = port::clock_ns();
    if (put_off_ != place) {
        put_off_ns_ = now;
    }
    if (now - put_off_ns_ >= timeout_ns && !mutate::put_off_for_ever) {
        refusal = code::not_submitted;
        return false;
    }
    return true;
}

// One request for each lane that finds one and has room for it, all under one doorbell. What the queue has no
// room for is the lane's next one again.
WARPBELL_AGENT(bool)::take(bool stopped, u64 timeout_ns) {
    const u32 place = put_off_ != nobody ? put_off_ : find_request();
    ++first_;
    bool want = place != nobody;
    if (this_warp().ballot(want) == 0) {
        return false;
    }
    if (!mutate::mail_no_fence_take) {
        Scope::fence(this_warp().is_leader()); // P2
    }
    status refusal;
    sqe entry = {};
    if (want) {
        entry = read_request(place, refusal);
        refusal = stopped && !mutate::stop_ignored ? status(code::aborted) : refusal;
    }
    const bool submits = want && refusal.ok();
    io_token token = s_.queue().try_submit(this_warp(), submits, entry);
    const bool flies = submits && token.in_flight();
    if (flies) {
        const u32 f = port::lowest(~busy_);
        busy_ |= 1u << f;
        places_[f] = place;
        since_[f] = port::clock_ns();
        tokens_[f] = move(token);
        ++did_.requests;
    } else if (submits) {
        refusal = token.refusal();
        token.reset();
    }
    const bool later = submits && !flies && waits_on(place, refusal, timeout_ns);
    put_off_ = later ? place : nobody;
    if (want && !flies && !later) {
        answer(place, refusal);
        ++did_.refused;
    }
    const bool moved = this_warp().ballot(want && !later) != 0;
    did_.batches += this_warp().ballot(flies) != 0 ? 1u : 0u;
    return moved;
}

// Whether flight f of this lane has its answer.
WARPBELL_AGENT(bool)::is_done(u32 f, status& said, u64 now, u64 timeout_ns) {
    const optional<status> found = s_.queue().try_wait(this_warp(), tokens_[f]);
    if (found) {
        said = *found;
        return true;
    }
    if (s_.queue().refuses() || now - since_[f] >= timeout_ns) {
        said = s_.queue().abandon(move(tokens_[f]));
        return true;
    }
    return false;
}

// Collects completions, and hands over what this warp's lanes have answers for. Completions of commands that
// were given up are room for what is put off.
WARPBELL_AGENT(bool)::hand_over(u64 timeout_ns) {
    if (this_warp().ballot(busy_ != 0 || put_off_ != nobody) == 0) {
        if (s_.queue().refuses() && !mutate::lost_queue_kept) {
            (void)s_.queue().try_switch_to_successor(this_warp());
        }
        return false;
    }
    // A quarter of a waiter's: requests come in meanwhile.
    const u32 polls = (port::polls_per_call() + 3u) / 4u;
    if (s_.queue().progress(this_warp(), backoff_, polls) == progress_result::expired) {
        backoff_ = backoff(); // of the warp's polls; each command has a deadline of its own
    }
    const u64 now = port::clock_ns();
    bool any = false;
    for (u32 f = 0; f < most; ++f) {
        status said;
        const bool done = (busy_ >> f & 1u) != 0 && is_done(f, said, now, timeout_ns);
        if (this_warp().ballot(done) == 0) {
            continue;
        }
        any = true;
        if (!mutate::mail_no_fence_answer) {
            Scope::fence(this_warp().is_leader()); // P3
        }
        if (done) {
            busy_ &= ~(1u << f);
            answer(places_[f], said);
        }
    }
    return any;
}

WARPBELL_AGENT(agent_report)::run(const u32* stop, u64 timeout_ns) {
    const this_warp_t warp;
    timeout_ns = s_.queue().deadline(timeout_ns);
    u64 stopped_ns = 0;
    while (true) {
        // Before the poll for requests: what a warp posted before it left is found by that.
        const bool left = all_left();
        if (left) {
            Scope::fence(warp.is_leader());
        }
        if (stop != nullptr && stopped_ns == 0) {
            const u32 said = warp.is_leader() ? port::load_relaxed_sys(stop) : 0;
            stopped_ns = warp.broadcast(said != 0 ? port::clock_ns() : u64(0));
        }
        const bool took = take(stopped_ns != 0, timeout_ns);
        const bool gave = hand_over(timeout_ns);
        if (took || gave) {
            pause_.busy();
            continue;
        }
        const bool idle = warp.ballot(busy_ != 0 || put_off_ != nobody) == 0 || mutate::agent_leaves_early;
        const u64 now = stopped_ns != 0 ? warp.broadcast(port::clock_ns()) : 0;
        const bool patient = stopped_ns == 0 || now - stopped_ns < timeout_ns;
        if (idle && (left || !patient)) {
            return did_;
        }
        pause_.idle();
    }
}

#undef WARPBELL_AGENT
#undef WARPBELL_CLIENT_CALL
#undef WARPBELL_CLIENT

} // namespace experimental
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
