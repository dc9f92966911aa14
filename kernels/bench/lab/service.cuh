// Protocol `service`: a thread locks the slot at the tail, which only then moves on; so slots are handed out
// one after the other. States of slots say who has come how far, whoever gets the doorbell's lock rings for
// those that are ready. Threads never look at completions: a warp of its own does, a window of 32 at a time,
// tells the controller when a window is complete, and hands each status over.
//
// After the description of AGILE (Yang et al., SC 2025, arXiv 2504.19365), in our own words and code.
#pragma once

#include "board.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Arrays and states that both sides know.
struct lab_slots {
    static constexpr u32 locks = 0;
    static constexpr u32 states = 1;
    static constexpr u32 owners = 2;  // number of the thread whose command is in the slot
    static constexpr u32 answers = 3; // by the thread's number: 0, or a status and `answered`
    static constexpr u64 answered = 1u << 16;
    static constexpr u64 empty = 0, processing = 1, ready = 2, issuing = 3, issued = 4;

    // Completions that are told of together. Half of a ring at most, so that the other half can go on.
    WARPBELL_D static u32 window(const lab_board& board) {
        return board.entries() < 2u * WARPBELL_WARP_LANES ? board.entries() / 2u : WARPBELL_WARP_LANES;
    }
    // Whether the slot's state was `from`, and is `to` now.
    WARPBELL_D static bool switch_over(const lab_board& board, u64 slot, u64 from, u64 to) {
        return port::cas_acquire_gpu(board.at(states, slot), from, to) == from;
    }
    // The same by the slot's thread: what it wrote before can be seen by whoever moves the slot on.
    WARPBELL_D static bool publish(const lab_board& board, u64 slot, u64 from, u64 to) {
        return mutate::service_published_unseen
                   ? switch_over(board, slot, from, to)
                   : port::cas_acq_rel_gpu(board.at(states, slot), from, to) == from;
    }
};

class service_protocol {
  public:
    static constexpr bool own_rings = true;

    WARPBELL_D service_protocol(const warpbell_lab_args& args, const lab_place& place, const lab_board& board,
                                session<sharing::shared>& session)
        : board_(board), number_(place.number()), ahead_(board.load(line::ahead)),
          patience_(board, session.queue().deadline(args.bench.timeout_ns)) {}

    WARPBELL_D bool go_on(bool mine) const { return mine; }
    WARPBELL_D bool agree(bool stopping) const { return stopping; }
    WARPBELL_D bool takes(bool want, bool) const { return want; }

    WARPBELL_D void submit(session<sharing::shared>&, bool want, const sqe& entry, u64 now_ns) {
        patience_.begin(now_ns);
        failed_ = !want || !publish(entry);
    }

    WARPBELL_D optional<status> poll(session<sharing::shared>&, bool busy) {
        if (!busy) {
            return nullopt;
        }
        if (failed_) {
            return patience_.why();
        }
        port::count_poll();
        const u64 answer = port::load_relaxed_gpu(board_.at(lab_slots::answers, number_));
        if (answer == 0) {
            if (patience_.over()) {
                return patience_.why();
            }
            port::pause();
            return nullopt;
        }
        port::fence_gpu(); // the status before the payload
        return status::from_wire(static_cast<u32>(answer));
    }

  private:
    WARPBELL_D bool publish(const sqe& entry) {
        port::store_relaxed_gpu(board_.at(lab_slots::answers, number_), 0);
        u64 slot = 0;
        while (!take_slot(slot)) {
            if (patience_.over()) {
                return false;
            }
            port::pause();
        }
        board_.write_entry(slot, static_cast<u32>(slot) & board_.mask(), entry);
        port::store_relaxed_gpu(board_.at(lab_slots::owners, slot), number_);
        // The entry for whoever rings for it, whose fence brings it to the controller.
        (void)lab_slots::publish(board_, slot, lab_slots::processing, lab_slots::ready);
        while (port::load_relaxed_gpu(board_.at(lab_slots::states, slot)) != lab_slots::issuing) {
            if (patience_.over()) {
                return false;
            }
            if (!ring_for_ready()) {
                port::pause();
            }
        }
        return lab_slots::publish(board_, slot, lab_slots::issuing, lab_slots::issued); // the owner
    }

    // The slot at the tail, if nobody else has it, and the service has told of enough completions.
    WARPBELL_D bool take_slot(u64& slot) const {
        slot = board_.load(line::ticket);
        const u64 told = port::load_acquire_gpu(board_.at(line::head)) - ahead_;
        if (static_cast<int64_t>(slot - told) >=
            static_cast<int64_t>(board_.entries() - lab_slots::window(board_))) {
            return false;
        }
        u64* lock = board_.at(lab_slots::locks, slot);
        if (!board_.try_lock(lock)) {
            return false;
        }
        if (board_.load(line::ticket) != slot || // the tail was faster
            !lab_slots::switch_over(board_, slot, lab_slots::empty, lab_slots::processing)) {
            board_.unlock(lock);
            return false;
        }
        port::fetch_add_relaxed_gpu(board_.at(line::ticket), 1);
        return true;
    }

    // Rings for slots that are ready, a sixteenth of the ring at most.
    WARPBELL_D bool ring_for_ready() const {
        u64* lock = board_.at(line::tail_lock);
        if (!board_.try_lock(lock)) {
            return false;
        }
        const u32 most = board_.entries() < 16u ? 1u : board_.entries() / 16u;
        const u64 from = board_.load(line::tail);
        u64 tail = from;
        while (tail - from < most && is_ready(tail) &&
               lab_slots::switch_over(board_, tail, lab_slots::ready, lab_slots::issuing)) {
            ++tail;
        }
        if (tail != from) {
            port::fence_sys();
            board_.ring_sq(from, tail);
            board_.store(line::tail, tail);
        }
        board_.unlock(lock);
        return tail != from;
    }
    WARPBELL_D bool is_ready(u64 slot) const {
        return port::load_relaxed_gpu(board_.at(lab_slots::states, slot)) == lab_slots::ready;
    }

    const lab_board& board_;
    const u32 number_;
    const u64 ahead_;
    lab_patience patience_;
    bool failed_ = false;
};

// The warp that looks at a queue's completions.
class lab_server {
  public:
    WARPBELL_D lab_server(const lab_board& board, u32 clients)
        : board_(board), clients_(clients), window_(lab_slots::window(board)), base_(board.load(line::head)) {
    }

    // Until its clients are done, or the run has ended.
    WARPBELL_D void run() {
        const this_warp_t warp;
        for (;;) {
            const bool ending = warp.broadcast(warp.is_leader() ? ended() : 0u) != 0;
            if (!poll(warp) && !ending) {
                port::pause();
            } else if (ending) {
                break;
            }
        }
        tell(warp, port::population(done_));
        if (warp.is_leader()) {
            board_.hand_over();
        }
    }

  private:
    WARPBELL_D u32 ended() const { return board_.load(line::left) == clients_ || board_.broken() ? 1u : 0u; }

    // One poll at the window; whether anything had come.
    WARPBELL_D bool poll(const this_warp_t& warp) {
        const u32 lane = port::lane();
        const u64 index = base_ + lane;
        const u64 entry = board_.completion(index);
        const bool fresh = lane < window_ && (done_ >> lane & 1u) == 0 && board_.posted(entry, index);
        if (warp.is_leader()) {
            port::count_poll();
        }
        if (warp.ballot(fresh) == 0) {
            return false;
        }
        port::fence_sys_group(warp.is_leader()); // the phases before the payloads
        const u32 handled = warp.ballot(fresh && hand_on(entry));
        done_ |= handled;
        if (port::population(done_) == window_) {
            tell(warp, window_);
        }
        return handled != 0;
    }

    // False: whoever submitted it has not noted that yet. Another look, then.
    WARPBELL_D bool hand_on(u64 entry) const {
        const u32 slot = lab_board::cid_of(entry);
        if (slot > board_.mask()) {
            board_.give_up();
            return false;
        }
        if (!lab_slots::switch_over(board_, slot, lab_slots::issued, lab_slots::empty)) {
            return false;
        }
        port::count_entry_reaped();
        const u64 owner = port::load_relaxed_gpu(board_.at(lab_slots::owners, slot));
        const u64 answer = lab_slots::answered | lab_board::status_of(entry).bits;
        port::store_release_gpu(board_.at(lab_slots::answers, owner), answer);
        board_.unlock(board_.at(lab_slots::locks, slot));
        return true;
    }

    // Of the window's first `count` completions. What lanes read lies before a fence of the leader's.
    WARPBELL_D void tell(const this_warp_t& warp, u32 count) {
        warp.sync();
        if (warp.is_leader() && count != 0) {
            board_.ring_cq(base_, base_ + count);
            board_.release(line::head, base_ + count);
        }
        base_ += count;
        done_ = 0;
    }

    const lab_board& board_;
    const u32 clients_, window_;
    u64 base_;
    u32 done_ = 0; // of the window: those that were handed on
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
