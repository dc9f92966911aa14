// Protocol `marks`: each thread takes a ticket of its own, writes its entry and marks it; whoever gets the
// lock sweeps the marks behind the tail and rings for all of them. Each thread looks for its own completion,
// marks it, and whoever gets the other lock sweeps those and moves the head.
//
// After the description of BaM's queues (Qureshi et al., ASPLOS 2023, section 4.2), in our own words and
// code.
#pragma once

#include "board.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Where identifiers come from: one counter for all threads of the queue and a lock on each, or a part of the
// identifiers for each thread, which nobody else takes from.
enum class cid_pool : u32 { shared, partitioned };

template <cid_pool Pool> class marks_protocol {
  public:
    static constexpr bool own_rings = true;

    WARPBELL_D marks_protocol(const warpbell_lab_args& args, const lab_place& place, const lab_board& board,
                              session<sharing::shared>& session)
        : board_(board), base_(board.load(line::base)),
          patience_(board, session.queue().deadline(args.bench.timeout_ns)), cid_(place.number()) {}

    // Each thread is on its own.
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
        u64 index = 0, entry = 0;
        if (!find(index, entry)) {
            if (patience_.over()) {
                return patience_.why();
            }
            port::pause();
            return nullopt;
        }
        port::fence_sys(); // the phase before the payload
        port::count_entry_reaped();
        if (!take_in(index)) {
            return patience_.why();
        }
        // Nobody finds this completion any more, so that the identifier may be used again.
        if (Pool == cid_pool::shared) {
            board_.unlock(board_.at(cids, cid_));
        }
        return lab_board::status_of(entry);
    }

  private:
    // Arrays.
    static constexpr u32 turns = 0;     // 2 n: free for lap n of the ring; 2 n + 1: in use there
    static constexpr u32 submitted = 1; // mark: the entry is written
    static constexpr u32 completed = 2; // mark: the completion is read
    static constexpr u32 cids = 3;      // lock of an identifier

    // ---- submission
    WARPBELL_D bool publish(const sqe& entry) {
        if (Pool == cid_pool::shared) {
            take_cid();
        }
        const u64 ticket = port::fetch_add_relaxed_gpu(board_.at(line::ticket), 1);
        const u64 lap = (ticket - base_) >> board_.shift();
        if (!wait_until([&] { return port::load_relaxed_gpu(board_.at(turns, ticket)) == 2u * lap; })) {
            return false;
        }
        port::fence_gpu(); // the controller has fetched the last entry before this one is written over it
        board_.write_entry(ticket, cid_, entry);
        u64* mark = board_.at(submitted, ticket);
        port::store_release_gpu(mark, 1);
        if (!wait_until([&] { return port::load_relaxed_gpu(mark) == 0 || sweep_submitted(); })) {
            return false;
        }
        port::fetch_add_relaxed_gpu(board_.at(turns, ticket), 1);
        return true;
    }

    WARPBELL_D void take_cid() {
        do {
            const u64 ticket = port::fetch_add_relaxed_gpu(board_.at(line::cid), 1);
            cid_ = static_cast<u32>(ticket) & board_.mask();
        } while (cid_ == 0xffffu || port::cas_acquire_gpu(board_.at(cids, cid_), 0, 1) != 0);
    }

    // Rings for the run of marks behind the tail. False: the caller looks again at its own.
    WARPBELL_D bool sweep_submitted() const {
        u64* lock = board_.at(line::tail_lock);
        if (!board_.try_lock(lock)) {
            return false;
        }
        const u64 from = board_.load(line::tail);
        const u64 end = port::load_acquire_gpu(board_.at(line::freed)) + board_.mask();
        u64 tail = from;
        while (tail != end && port::exchange_acquire_gpu(board_.at(submitted, tail), 0) == 1) {
            ++tail;
        }
        if (tail != from) {
            port::fence_sys(); // all these entries before the doorbell
            board_.ring_sq(from, tail);
            board_.store(line::tail, tail);
        }
        board_.unlock(lock); // after the doorbell: the next one's comes later
        return false;
    }

    // ---- completion
    // From the head on, as far as completions were posted.
    WARPBELL_D bool find(u64& index, u64& entry) const {
        const u64 head = board_.load(line::head);
        for (index = head; index - head <= board_.mask(); ++index) {
            entry = board_.completion(index);
            if (!board_.posted(entry, index)) {
                return false;
            }
            if (lab_board::cid_of(entry) == cid_) {
                return true;
            }
        }
        return false;
    }

    // Until the head has passed the completion: by this thread, or by another one.
    WARPBELL_D bool take_in(u64 index) {
        port::store_release_gpu(board_.at(completed, index), 1);
        const bool passed = wait_until(
            [&] { return static_cast<int64_t>(board_.load(line::head) - index) > 0 || sweep_completed(); });
        port::fence_gpu();
        return passed;
    }

    // Frees what the last completion of the run says was fetched, and tells the controller of the run.
    WARPBELL_D bool sweep_completed() const {
        u64* lock = board_.at(line::head_lock);
        if (!board_.try_lock(lock)) {
            return false;
        }
        const u64 from = board_.load(line::head);
        u64 head = from;
        while (port::exchange_acquire_gpu(board_.at(completed, head), 0) == 1) {
            ++head;
        }
        if (head != from) {
            const u32 fetched = static_cast<u32>(board_.completion(head - 1u)) & 0xffffu;
            port::fence_gpu(); // the completions were read before anything of theirs is used again
            free_fetched(fetched);
            board_.ring_cq(from, head);
            board_.release(line::head, head);
        }
        board_.unlock(lock);
        return false;
    }

    WARPBELL_D void free_fetched(u32 fetched) const {
        const u64 from = board_.load(line::freed);
        const u64 to = from + ((fetched - static_cast<u32>(from)) & board_.mask());
        for (u64 index = from; index != to; ++index) {
            port::fetch_add_fenced_gpu(board_.at(turns, index), 1);
        }
        board_.release(line::freed, to);
    }

    template <class Done> WARPBELL_D bool wait_until(const Done& done) {
        while (!done()) {
            if (patience_.over()) {
                return false;
            }
            port::pause();
        }
        return true;
    }

    const lab_board& board_;
    const u64 base_;
    lab_patience patience_;
    u32 cid_; // partitioned: the thread's own, as it has one command at a time
    bool failed_ = false;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
