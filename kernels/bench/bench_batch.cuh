// What kernel `bench_batch` does: the threads of a block add as many requests as its warps may have in
// flight, its warps send them, and wait for all; then each thread looks at its own. So until told to stop.
//
// Nothing here is an array that is indexed, so the batch and the tally stay in registers; `bench` keeps its
// slots in memory.
#pragma once

#include "quota.cuh"
#include "workload.cuh"

#include "abi_bench.h"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// A request of each thread of the largest block.
using bench_requests = io_batch<WARPBELL_BLOCK_THREADS_MAX>;
constexpr u32 block_warps_max = WARPBELL_BLOCK_THREADS_MAX / WARPBELL_WARP_LANES;

// The block's memory.
struct batch_board {
    bench_requests::storage requests;
    u32 clock[2];                   // for block_talk
    u32 counts[block_warps_max][2]; // by each warp, for all
    u32 news[block_warps_max];      // by each warp that submits, for the threads with requests of its slots
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
            const quota its(args_.iodepth, args_.ns.queue_count, place_of(submitter()),
                            port::grid_blocks() * submitters_);
            state_ = slot_ % WARPBELL_WARP_LANES < its.commands ? state::idle : state::none;
        }
    }

    WARPBELL_D void run() {
        start(this_warp());
        for (;;) {
            meet();
            const u32 n = ending() ? 0 : part_of(able_);
            status worst;
            if (n + again_ != 0) {
                worst = exchange(n);
            } else if (ending() ? put_off_ == 0 : hopeful_ == 0) {
                break; // all is done, or no buffer is left
            }
            if (!worst.ok() || held_ != 0) {
                recover(n + again_ == 0);
            }
        }
        count_policy();
        const u32 of = warp_ < submitters_ ? warp_ : 0;
        write_result(this_warp(), args_.results, tally_, io_bytes_, place_of(of) % args_.ns.queue_count,
                     start_ns_);
        session_.detach(this_warp());
    }

  private:
    // Of this thread's slot. While it is held or put off, the SSD may still use its buffer; an I/O that is
    // put off is tried again then.
    enum class state : u32 { none, idle, busy, held, put_off, again };
    // Of a warp that submits: commands that were given up may be under way, or all its buffers are free; any
    // other number is the status that says why it has no queue.
    static constexpr u32 under_way = 0, all_free = 1;

    // What the session's policy counted. Losses of the queue are counted here: the policy sees those that a
    // wait comes across, once for each round of commands, and none of those that only `poll` finds.
    WARPBELL_D void count_policy() {
        retry did = session_.retries();
        const u32 lost = session_.queue().ref().epoch - epoch_ + (lost_.ok() ? 0u : 1u);
        did.queue_losses = this_warp().is_leader() ? lost : 0;
        tally_.add(did);
    }

    WARPBELL_D u32 place_of(u32 warp) const { return port::block_index() * submitters_ + warp; }
    WARPBELL_D u32 submitter() const { return slot_ / WARPBELL_WARP_LANES; }
    WARPBELL_D dma_span data() const { return data_of(place_of(submitter()), slot_ % WARPBELL_WARP_LANES); }
    WARPBELL_D bool waits() const { return state_ == state::held || state_ == state::put_off; }
    WARPBELL_D bool patient() const { return now_ns_ - since_ns_ < args_.recover_ns; }

    // What time it is, how many threads are in which state, and this one's rank among those that are idle.
    WARPBELL_D void meet() {
        const this_warp_t warp;
        const u32 able = warp.ballot(state_ == state::idle);
        const auto count = [&](bool is) { return port::population(warp.ballot(is)); };
        const u32 first = port::population(able) | count(state_ == state::again) << 10 | count(waits()) << 20;
        const u32 second = count(state_ == state::put_off) | count(waits() && patient()) << 10;
        if (warp.is_leader()) {
            port::store_relaxed_any(&board_.counts[warp_][0], first);
            port::store_relaxed_any(&board_.counts[warp_][1], second);
        }
        tick(block_talk(board_), true);
        u32 sums[2] = {0, 0}, before = 0;
        for (u32 w = 0; w < warps_per_block(); ++w) {
            before = w == warp_ ? sums[0] & 1023u : before;
            sums[0] += port::load_relaxed_any(&board_.counts[w][0]);
            sums[1] += port::load_relaxed_any(&board_.counts[w][1]);
        }
        able_ = sums[0] & 1023u;
        again_ = sums[0] >> 10 & 1023u;
        held_ = sums[0] >> 20;
        put_off_ = sums[1] & 1023u;
        hopeful_ = sums[1] >> 10;
        rank_ = before + rank_in(able);
    }

    // One batch: `n` new I/Os, and those that are tried again.
    WARPBELL_D status exchange(u32 n) {
        const this_block_t block;
        if (state_ == state::idle && rank_ < n) {
            begin();
        }
        if (state_ == state::again) {
            add();
        }
        pass(n);
        batch_.submit(block, session_, args_.timeout_ns);
        const status worst = batch_.wait(block, session_);
        now_ns_ = this_warp().broadcast(port::clock_ns());
        if (state_ == state::busy) {
            finish(batch_[slot_].result);
        }
        return worst;
    }

    WARPBELL_D void begin() {
        what_ = draw(rank_);
        begin_ns_ = now_ns_;
        tries_ = 0;
        fill(what_, data());
        state_ = state::again;
    }

    WARPBELL_D void add() {
        const extent where = {lba(what_.lba), args_.blocks_per_io};
        // The slot was answered, and the data is inside: not refused.
        (void)batch_.add(slot_, {what_.writes ? opcode::write : opcode::read, where, data(), 0});
        state_ = state::busy;
    }

    // The request was answered. What may be tried again at once, the session's policy has.
    WARPBELL_D void finish(status said) {
        state_ = state::idle;
        since_ns_ = now_ns_;
        if (said.ok()) {
            tally_.recovered += tries_ != 0 ? 1u : 0u;
            succeed(what_, begin_ns_, data());
        } else if (!said.buffer_in_use()) {
            fail(what_.lba, said);
        } else if (tries_ < args_.retries && args_.recover_ns != 0) {
            state_ = state::put_off;
        } else {
            state_ = state::held;
            fail(what_.lba, said);
        }
    }

    // After trouble, with nothing in flight but what was given up: goes on with the queue in place of a lost
    // one, and with buffers that are free again. `idle`: no batch was sent.
    WARPBELL_D void recover(bool idle) {
        if (warp_ < submitters_) {
            const u32 found = poll(idle);
            if (this_warp().is_leader()) {
                port::store_relaxed_any(&board_.news[warp_], found);
            }
        }
        port::sync_block();
        if (state_ != state::none) {
            apply(port::load_relaxed_any(&board_.news[submitter()]));
        }
    }

    // By a warp that submits. No identifier out of use means that no command is under way. In a wait for a
    // batch, and else here, the warp sees which have come back.
    WARPBELL_D u32 poll(bool idle) {
        const this_warp_t warp;
        warpbell::queue<Mode>& queue = session_.queue();
        backoff patience(args_.timeout_ns);
        if (idle) {
            (void)queue.progress(warp, patience);
        }
        if (warp.ballot(queue.refuses()) != 0 && lost_.ok()) {
            lost_ = code::queue_lost;
            if (args_.recover_ns != 0) {
                lost_ = detail::agree(warp, session_.switch_to_successor(warp, args_.recover_ns));
            }
        }
        if (!lost_.ok()) {
            return lost_.bits;
        }
        const bool whole = queue.free_ids() == 1u << queue.ref().token_shift;
        return warp.ballot(!whole) == 0 ? all_free : under_way;
    }

    WARPBELL_D void apply(u32 news) {
        const bool gone = news != under_way && news != all_free;
        if (state_ == state::put_off && (gone || (news != all_free && !patient()))) {
            fail(what_.lba, gone ? status::from_bits(news) : status(code::timed_out));
            state_ = state::held;
        }
        if (gone) {
            state_ = state::none;
        } else if (news == all_free && state_ == state::held) {
            state_ = state::idle;
        } else if (news == all_free && state_ == state::put_off) {
            state_ = state::again;
            ++tries_;
            ++tally_.retried;
        }
    }

    batch_board& board_;
    const u32 submitters_, warp_, slot_;
    session<Mode, retry> session_;
    bench_requests batch_;
    const u32 epoch_ = session_.queue().ref().epoch;
    state state_ = state::none;
    io what_ = {};
    u32 tries_ = 0;                   // of its I/O, after its buffer was in use
    u64 begin_ns_ = 0, since_ns_ = 0; // when its I/O began; since when its buffer is waited for
    u32 able_ = 0, again_ = 0;   // threads of the block that can begin an I/O, or have one to send again,
    u32 held_ = 0, put_off_ = 0; // whose buffer is in use; and of these whose I/O is not over,
    u32 hopeful_ = 0;            // or that still wait for it
    u32 rank_ = 0;               // among the able
    status lost_;                // why there is no queue any more
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
