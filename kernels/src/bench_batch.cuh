// What kernel `bench_batch` does: the threads of a block add as many requests as its warps may have in
// flight, its warps send them, and wait for all; then each thread looks at its own. So until told to stop.
#pragma once

#include "share.cuh"
#include "workload.cuh"

#include <warpbell/abi_bench.h>

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// A request of each thread of the largest block.
using bench_requests = io_batch<WARPBELL_BLOCK_THREADS_MAX>;
constexpr u32 block_warps_max = WARPBELL_BLOCK_THREADS_MAX / WARPBELL_WARP_LANES;

// The block's memory.
struct batch_board {
    bench_requests::storage requests;
    u32 clock[2];                // for block_talk
    u32 counts[block_warps_max]; // by each warp, for all
    u32 news[block_warps_max];   // by each warp that submits, for the threads with requests of its slots
};
static_assert(sizeof(batch_board) <= WARPBELL_BENCH_BLOCK_BYTES, "what the host sets aside");

// The block as a group whose first thread tells the others something. Between two times they sync.
class block_talk {
  public:
    WARPBELL_D explicit block_talk(batch_board& board) : board_(board) {}
    WARPBELL_D bool is_leader() const { return port::thread_index() == 0; }
    WARPBELL_D u64 broadcast(u64 value) const {
        if (is_leader()) {
            port::store_relaxed_any(&board_.clock[0], static_cast<u32>(value));
            port::store_relaxed_any(&board_.clock[1], static_cast<u32>(value >> 32));
        }
        port::sync_block();
        return port::pair(port::load_relaxed_any(&board_.clock[0]), port::load_relaxed_any(&board_.clock[1]));
    }

  private:
    batch_board& board_;
};

template <sharing Mode> class bench_block : workload {
  public:
    // The first `submitters` warps of each block have sessions. A thread's slot is not of its own warp alone:
    // what one warp adds is sent by all, or by another.
    WARPBELL_D bench_block(const warpbell_bench_batch_args& args, batch_board& board, u32 blocks)
        : workload(args.bench, port::block_index(), blocks,
                   static_cast<u64>(port::block_index()) * port::block_threads() + port::thread_index()),
          board_(board), submitters_(args.submitters), warp_(port::thread_index() / WARPBELL_WARP_LANES),
          slot_(port::lane() * warps_per_block() + warp_),
          // The other warps' sessions have no place, and are not used.
          session_(this_warp(), args.bench.ns, warp_ < submitters_ ? place_of(warp_) : ~0u,
                   retry(args.bench.retries)),
          batch_(this_block(), board.requests, submitters_) {
        if (slot_ / WARPBELL_WARP_LANES < submitters_) {
            const share its(args_.iodepth, args_.ns.queue_count, place_of(submitter()),
                            port::grid_blocks() * submitters_);
            state_ = slot_ % WARPBELL_WARP_LANES < its.commands ? state::idle : state::none;
        }
    }

    WARPBELL_D void run() {
        start(this_warp());
        for (;;) {
            meet();
            if (ending() || (able_ == 0 && hopeful_ == 0)) {
                break; // it is time, or no buffer is left
            }
            const u32 n = part_of(able_);
            status worst;
            if (n != 0) {
                worst = exchange(n);
            } else {
                port::pause();
            }
            if (!worst.ok() || held_ != 0) {
                look_after();
            }
        }
        tally_.add(session_.retries());
        const u32 of = warp_ < submitters_ ? warp_ : 0;
        write_result(this_warp(), args_.results, tally_, io_bytes_, place_of(of) % args_.ns.queue_count,
                     start_ns_);
        session_.detach(this_warp());
    }

  private:
    // Of this thread's slot. held: the SSD may still use its buffer.
    enum class state : u32 { none, idle, busy, held };
    // Of a warp that submits: commands of its that were given up may be under way, all its buffers are free,
    // or it has no queue any more.
    enum news : u32 { under_way, all_free, no_queue };

    WARPBELL_D u32 place_of(u32 warp) const { return port::block_index() * submitters_ + warp; }
    WARPBELL_D u32 submitter() const { return slot_ / WARPBELL_WARP_LANES; }
    WARPBELL_D dma_span data() const { return data_of(place_of(submitter()), slot_ % WARPBELL_WARP_LANES); }
    WARPBELL_D bool patient() const { return now_ns_ - since_ns_ < args_.recover_ns; }

    // What time it is, how many threads could add a request, and this one's rank among them.
    WARPBELL_D void meet() {
        const this_warp_t warp;
        const u32 able = warp.ballot(state_ == state::idle), held = warp.ballot(state_ == state::held);
        const u32 hopeful = warp.ballot(state_ == state::held && patient());
        if (warp.is_leader()) {
            port::store_relaxed_any(&board_.counts[warp_], port::population(able) |
                                                               port::population(held) << 10 |
                                                               port::population(hopeful) << 20);
        }
        tick(block_talk(board_), true);
        u32 all = 0, before = 0;
        for (u32 w = 0; w < warps_per_block(); ++w) {
            before = w == warp_ ? all : before;
            all += port::load_relaxed_any(&board_.counts[w]);
        }
        able_ = all & 1023u;
        held_ = all >> 10 & 1023u;
        hopeful_ = all >> 20;
        rank_ = (before & 1023u) + rank_in(able);
    }

    // One batch: of `n` requests.
    WARPBELL_D status exchange(u32 n) {
        const this_block_t block;
        if (state_ == state::idle && rank_ < n) {
            add();
        }
        pass(n);
        batch_.submit(block, session_, args_.deadline_ns);
        const status worst = batch_.wait(block, session_);
        now_ns_ = this_warp().broadcast(port::clock_ns());
        if (state_ == state::busy) {
            finish(batch_[slot_].result);
        }
        return worst;
    }

    WARPBELL_D void add() {
        const dma_span whole = data();
        what_ = draw(rank_);
        since_ns_ = now_ns_;
        fill(what_, whole);
        const extent where = {lba(what_.lba), args_.blocks_per_io};
        // The slot was answered, and the data is inside: not refused.
        (void)batch_.add(slot_, what_.writes ? opcode::write : opcode::read, where, whole);
        state_ = state::busy;
    }

    WARPBELL_D void finish(status said) {
        state_ = state::idle;
        if (said.ok()) {
            succeed(what_, since_ns_, data());
            return;
        }
        fail(what_.lba, said);
        if (said.buffer_in_use()) {
            state_ = state::held;
            since_ns_ = now_ns_;
        }
    }

    // After trouble, with nothing in flight but what was given up: goes on with the queue in place of a lost
    // one, and with buffers that are free again.
    WARPBELL_D void look_after() {
        if (warp_ < submitters_) {
            const u32 found = look();
            if (this_warp().is_leader()) {
                port::store_relaxed_any(&board_.news[warp_], found);
            }
        }
        port::sync_block();
        if (state_ == state::none) {
            return;
        }
        const u32 found = port::load_relaxed_any(&board_.news[submitter()]);
        if (found == no_queue) {
            state_ = state::none;
        } else if (found == all_free && state_ == state::held) {
            state_ = state::idle;
        }
    }

    // By a warp that submits. No identifier out of use means that no command is under way.
    WARPBELL_D u32 look() {
        const this_warp_t warp;
        warpbell::queue<Mode>& queue = session_.queue();
        pace patience(args_.deadline_ns);
        if (queue.progress(warp, patience) == progress_result::lost && !gave_up_) {
            status back = code::queue_lost;
            if (args_.recover_ns != 0) {
                back = session_.reattach(warp, args_.recover_ns);
            }
            gave_up_ = warp.ballot(!back.ok()) != 0;
        }
        if (gave_up_) {
            return no_queue;
        }
        const bool whole = queue.free_ids() == 1u << queue.ref().token_shift;
        return warp.ballot(!whole) == 0 ? all_free : under_way;
    }

    batch_board& board_;
    const u32 submitters_, warp_, slot_;
    session<Mode, retry> session_;
    bench_requests batch_;
    state state_ = state::none;
    io what_ = {};
    u64 since_ns_ = 0;                                 // its I/O began, or its buffer is waited for
    u32 rank_ = 0, able_ = 0, held_ = 0, hopeful_ = 0; // of this round; but for the rank, of the block
    bool gave_up_ = false;                             // the queue is lost, and there is no other
};

WARPBELL_D void run_bench_batch(const warpbell_bench_batch_args& args) {
    // Of the warps that submit only the first have commands, so it is with blocks.
    const u32 busy = busy_warps(args.bench, port::grid_blocks() * args.submitters);
    const u32 blocks = (busy + args.submitters - 1u) / args.submitters;
    if (port::block_index() >= blocks) {
        return;
    }
    batch_board& board = *static_cast<batch_board*>(port::block_memory());
    if (args.bench.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        bench_block<sharing::exclusive>(args, board, blocks).run();
    } else {
        bench_block<sharing::shared>(args, board, blocks).run();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
