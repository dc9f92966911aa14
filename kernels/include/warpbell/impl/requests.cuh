// Bodies of requests.cuh.
#pragma once

#include "../requests.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D status io_request<Commands>::begin(const Group& group, const session<Mode, Retry>& s,
                                              const command& what, bool whole) {
    if (pending() && !mutate::request_begun_again) {
        return code::no_room;
    }
    state_ = whole ? of_group : of_lane;
    what_ = static_cast<u32>(what.op) | (what.flags & 0xffff0000u);
    where_ = what.where ? *what.where : extent();
    data_ = what.data;
    next_ = whole ? group.thread_rank() : 0;
    step_ = whole ? group.size() : 1u;
    total_ = end_ = 0;
    failed_ = none;
    result_ = status();
    bytes_ = 0;
    if (what.where && what.op == opcode::flush && whole && detail::fits_flags(what.op, what.flags)) {
        total_ = end_ = 1;
    } else if (what.where) {
        const status refusal = detail::check_whole(s, what.op, where_, data_, what.flags);
        if (refusal.ok()) {
            total_ = end_ = (where_.blocks - 1u) / s.max_blocks(what.op) + 1u;
        } else {
            note(0, refusal);
        }
        if (total_ > none / 2u) {
            note(0, code::too_large);
        }
    }
    return status();
}

template <u32 Commands> WARPBELL_D bool io_request<Commands>::in_flight() const {
    bool any = false;
    for (u32 k = 0; k < Commands; ++k) {
        any = any || tokens_[k].valid();
    }
    return any;
}

template <u32 Commands> WARPBELL_D u32 io_request<Commands>::free_place() const {
    u32 found = Commands;
    for (u32 k = 0; k < Commands; ++k) {
        found = found == Commands && !tokens_[k].valid() ? k : found;
    }
    return found;
}

template <u32 Commands> WARPBELL_D bool io_request<Commands>::is_done() const {
    return (!in_flight() || mutate::request_done_early) && is_sent();
}

// What became of a piece: of two failures the one that leaves its buffer to the SSD, else the first.
template <u32 Commands> WARPBELL_D void io_request<Commands>::note(u32 piece, status said) {
    if (said.ok()) {
        return;
    }
    const bool more = said.buffer_in_use() && !mutate::request_in_use_hidden, less = result_.buffer_in_use();
    const bool first = (piece < failed_) != mutate::request_last_failure;
    if (result_.ok() || (more && !less) || (more == less && first)) {
        result_ = said;
    }
    failed_ = piece < failed_ ? piece : failed_;
    end_before(failed_);
}

// Nothing is sent from this piece on.
template <u32 Commands> WARPBELL_D void io_request<Commands>::end_before(u32 piece) {
    if (!mutate::request_goes_on) {
        end_ = piece < end_ ? piece : end_;
    }
}

// What lies before the first failure of all lanes is still sent: a lane may be behind the others.
template <u32 Commands>
template <class Group>
WARPBELL_D void io_request<Commands>::end_before_failures(const Group& group) {
    for (u32 left = group.ballot(failed_ != none); left != 0; left &= left - 1u) {
        const u32 piece = static_cast<u32>(group.from(port::lowest(left), failed_));
        end_before(mutate::request_stops_at_once ? 0 : piece);
    }
}

template <u32 Commands>
template <sharing Mode, class Retry>
WARPBELL_D void io_request<Commands>::settle(session<Mode, Retry>& s) {
    for (u32 k = 0; k < Commands; ++k) {
        if (!tokens_[k].valid()) {
            continue;
        }
        if (const optional<status> done = s.queue().try_wait(tokens_[k])) {
            note(pieces_[k], *done);
        }
    }
}

// Of the lane's next piece.
template <u32 Commands>
template <sharing Mode, class Retry>
WARPBELL_D sqe io_request<Commands>::entry(const session<Mode, Retry>& s, status& refusal) const {
    if (op() == opcode::flush) {
        return detail::flush_entry(s);
    }
    const extent part = *detail::piece(where_, next_, s.max_blocks(op()));
    const u64 step_bytes = static_cast<u64>(s.max_blocks(op())) * s.block_bytes();
    const dma_span data = data_.subspan(next_ * step_bytes, static_cast<u64>(part.blocks) * s.block_bytes());
    refusal = s.check(op(), part, data);
    sqe entry = {};
    if (refusal.ok()) {
        entry = s.entry(op(), part, data);
        entry.dword[12] |= mutate::request_flags_of_first && next_ != 0 ? 0 : what_ & 0xffff0000u;
    }
    return entry;
}

// One command of each lane that has one to send, and a place and an id for it. False: none was sent.
template <u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D bool io_request<Commands>::send(const Group& group, session<Mode, Retry>& s, bool patient) {
    const u32 place = free_place();
    const bool alone = !patient && !in_flight() &&
                       !mutate::request_waits_for_itself; // nothing of its own will give it an id
    const bool want = pending() && !is_sent() && place != Commands && (s.queue().free_ids() != 0 || alone);
    if (group.ballot(want) == 0) {
        return false;
    }
    status refusal;
    sqe entry = {};
    if (want) {
        entry = this->entry(s, refusal);
    }
    io_token token = s.queue().try_submit(group, want && refusal.ok(), entry);
    const bool sent = token.in_flight();
    if (want && !sent) {
        const status why = refusal.ok() ? token.refusal() : refusal;
        if (mutate::request_piece_lost && why.is(code::no_room)) {
            next_ += step_;
        } else if (!why.is(code::no_room) && (alone || !why.is(code::no_cid))) {
            note(next_, why);
        }
    }
    for (u32 k = 0; k < Commands; ++k) {
        if (sent && k == place) {
            tokens_[k] = move(token);
            pieces_[k] = next_;
        }
    }
    next_ += sent ? step_ : 0u;
    return group.ballot(sent) != 0;
}

template <u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D void io_request<Commands>::advance(const Group& group, session<Mode, Retry>& s, bool patient) {
    settle(s);
    const bool starved = !patient && pending() && !is_sent() && s.queue().free_ids() == 0 && !in_flight();
    if (group.ballot(starved) != 0) {
        // Perhaps commands that timed out have completed since: that releases their ids.
        backoff patience;
        (void)s.queue().reap(group);
        (void)s.queue().progress(group, patience);
    }
    do {
        if (is_whole()) {
            end_before_failures(group);
        }
    } while (send(group, s, patient));
}

template <u32 Commands>
template <sharing Mode, class Retry>
WARPBELL_D void io_request<Commands>::give_up(session<Mode, Retry>& s, status unsent) {
    for (u32 k = 0; k < Commands; ++k) {
        if (tokens_[k].valid()) {
            note(pieces_[k], s.queue().abandon(move(tokens_[k])));
        }
    }
    if (pending() && !is_sent() && !mutate::request_unsent_forgotten) {
        note(next_, unsent);
    }
    end_ = 0;
}

// What became of all lanes' pieces, in every lane.
template <u32 Commands>
template <class Group>
WARPBELL_D void io_request<Commands>::gather(const Group& group) {
    const u32 first = failed_, bits = result_.bits;
    failed_ = none;
    result_ = status();
    for (u32 left = group.mask(); left != 0; left &= left - 1u) {
        const u32 lane = port::lowest(left);
        const u32 piece = static_cast<u32>(group.from(lane, first));
        note(piece, status::from_bits(static_cast<u32>(group.from(lane, bits))));
    }
}

template <u32 Commands>
template <class Group, sharing Mode, class Retry>
WARPBELL_D status io_request<Commands>::finish(const Group& group, const session<Mode, Retry>& s) {
    if (!pending()) {
        return result_;
    }
    if (is_whole()) {
        group.sync(); // each lane saw the completions of its own commands; all read the data of all
        if (group.ballot(!result_.ok()) != 0 && !mutate::request_answer_of_lane) {
            gather(group);
        }
    }
    state_ = idle;
    // All pieces before the first failure were sent, or the first that was not is one.
    const u32 moved = result_.ok() || mutate::request_bytes_behind ? total_ : failed_;
    const u64 blocks = static_cast<u64>(moved) * s.max_blocks(op());
    bytes_ = (blocks < where_.blocks ? blocks : where_.blocks) * s.block_bytes();
    return result_;
}

namespace detail {

template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status start_request(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                                const command& what, bool whole) {
    const status begun = request.begin(group, s, what, whole);
    if (group.ballot(begun.ok()) != 0) {
        request.advance(group, s);
    }
    return begun;
}

// Whether a request has its answer: of one of the group's, in all lanes.
template <class Group, u32 Commands>
WARPBELL_D bool is_answered(const Group& group, const io_request<Commands>& request) {
    const u32 busy = group.ballot(!request.is_done());
    return request.is_whole() ? busy == 0 : request.is_done();
}

// Until all lanes are done, or nothing more is to be waited for.
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D void complete(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                         backoff& backoff) {
    for (;;) {
        request.advance(group, s);
        if (group.ballot(!request.is_done()) == 0) {
            return;
        }
        const progress_result did = s.queue().progress(group, backoff);
        if (did == progress_result::lost || did == progress_result::expired) {
            const bool lost = did == progress_result::lost;
            request.give_up(s, lost ? code::queue_lost : code::not_submitted);
            return;
        }
    }
}

} // namespace detail

template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status submit(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                         const command& what) {
    return detail::start_request(group_of(group), s, request, what, true);
}
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status submit_each(const Group& group, session<Mode, Retry>& s, io_request<Commands>& request,
                              const command& mine) {
    return detail::start_request(group_of(group), s, request, mine, false);
}
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D optional<status> try_wait(const Group& who, session<Mode, Retry>& s,
                                     io_request<Commands>& request) {
    const auto group = group_of(who);
    (void)s.queue().reap(group);
    request.advance(group, s);
    if (!detail::is_answered(group, request)) {
        return nullopt;
    }
    return request.finish(group, s);
}
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status wait(const Group& who, session<Mode, Retry>& s, io_request<Commands>& request,
                       u64 timeout_ns) {
    const auto group = group_of(who);
    backoff backoff(timeout_ns);
    detail::complete(group, s, request, backoff);
    return request.finish(group, s);
}
template <class Group, sharing Mode, class Retry, u32 Commands>
WARPBELL_D status cancel(const Group& who, session<Mode, Retry>& s, io_request<Commands>& request) {
    const auto group = group_of(who);
    (void)s.queue().reap(group); // perhaps it has completed, and nobody has looked
    request.give_up(s, code::aborted);
    return request.finish(group, s);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
