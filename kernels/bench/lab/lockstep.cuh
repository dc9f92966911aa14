// Protocol `lockstep`: a block of threads goes on together. Each thread writes its entry at a place of its
// own behind the tail, one thread rings; each waits for the completion at its own place behind the head,
// whosever that is, and one thread tells of all of them. Positions stand for everything: no atomics, no
// identifiers.
//
// After the documentation of xNVMe's device queues (xnvme.io), in our own words and code. There a queue is
// one block's; where warps of several blocks share one here, the blocks take turns.
#pragma once

#include "board.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

class lockstep_protocol {
  public:
    static constexpr bool own_rings = true;

    WARPBELL_D lockstep_protocol(const warpbell_lab_args& args, const lab_place& place,
                                 const lab_board& board, session<sharing::shared>& session)
        : board_(board), portion_(args.bench),
          patience_(board, session.queue().deadline(args.bench.timeout_ns)) {
        const u32 warps = warps_per_block(), block = place.slot / warps;
        const lab_place head(args, warp_number() / warps * warps);
        const lab_place tail(args, warp_number() / warps * warps + warps - 1u);
        shared_ = place.warps_here > warps;
        threads_ = tail.first + tail.lanes - head.first;
        rank_ = place.number() - head.first;
        number_ = static_cast<u64>(place.queue) * args.bench.iodepth + head.first;
        stop_ = board.at(0, block);
    }

    WARPBELL_D bool go_on(bool) const { return !stopped_ && working() != 0; }
    // One thread's wish, of which all learn at the end of the round.
    WARPBELL_D bool agree(bool stopping) {
        wish_ = stopping;
        return stopped_;
    }
    WARPBELL_D bool takes(bool, bool) const { return true; }

    WARPBELL_D void submit(session<sharing::shared>&, bool want, const sqe& entry, u64 now_ns) {
        patience_.begin(now_ns);
        if (shared_) {
            wait_for_queue();
        }
        const u64 tail = board_.load(line::ticket);
        if (want) {
            board_.write_entry(tail + rank_, rank_, entry);
        }
        port::sync_block();
        if (port::thread_index() == 0) {
            port::fence_sys(); // all threads' entries before the doorbell
            board_.ring_sq(tail, tail + working());
            board_.store(line::ticket, tail + working());
        }
    }

    WARPBELL_D optional<status> poll(session<sharing::shared>&, bool busy) {
        const u64 head = board_.load(line::head);
        optional<status> done;
        if (busy) {
            done = wait_for(head + rank_);
        }
        port::fence_sys_group(port::lane() == 0); // the phases before the payload and before the doorbell
        port::sync_block();                       // whose payload it is, nobody knows: all have come now
        if (port::thread_index() == 0) {
            finish(head);
        }
        port::sync_block();
        stopped_ = port::load_relaxed_gpu(stop_) != 0;
        ++round_;
        return done;
    }

  private:
    // Threads that have an I/O in this round: the first ones.
    WARPBELL_D u32 working() const { return portion_.beyond(round_, number_, threads_); }

    WARPBELL_D void wait_for_queue() const {
        if (port::thread_index() == 0) {
            while (!board_.try_lock(board_.at(line::tail_lock)) && !board_.broken()) {
                port::pause();
            }
        }
        port::sync_block();
    }

    WARPBELL_D status wait_for(u64 index) {
        for (;;) {
            port::count_poll();
            const u64 entry = board_.completion(index);
            if (board_.posted(entry, index)) {
                port::count_entry_reaped();
                return lab_board::status_of(entry);
            }
            if (patience_.over()) {
                return patience_.why();
            }
            port::pause();
        }
    }

    WARPBELL_D void finish(u64 head) const {
        const bool broken = board_.broken();
        if (!broken) {
            board_.ring_cq(head, head + working());
            board_.store(line::head, head + working());
        }
        port::store_relaxed_gpu(stop_, wish_ || broken ? 1u : 0u);
        if (shared_) {
            board_.unlock(board_.at(line::tail_lock));
        }
    }

    const lab_board& board_;
    const lab_portion portion_;
    lab_patience patience_;
    bool shared_, wish_ = false, stopped_ = false;
    u32 threads_, rank_; // that work, of the block; and this one among them
    u64 number_;         // of the block's first thread, over all queues
    u64 round_ = 0;
    u64* stop_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
