// What the protocols of the laboratory have in common: a queue's rings and doorbells, and words to agree by.
#pragma once

#include "place.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Words of a queue, on lines of their own. What no protocol of a launch uses stays zero.
enum class line : u32 {
    open,      // the words below are filled in, or the queue is of no use
    broken,    // 1: a command was lost, or the queue; the run ends
    left,      // warps that are done
    base,      // where the rings stood, of submissions
    ahead,     // by how much completions stood before them: those that were nobody's
    ticket,    // next index to submit at
    tail,      // told to the controller
    tail_lock, // who tells it
    freed,     // submissions whose entries are free again
    head,      // completions taken in and told to the controller
    head_lock, // who tells it
    cid,       // next identifier to try
};

// One queue, as a protocol of the laboratory sees it.
class lab_board {
  public:
    WARPBELL_D lab_board(const warpbell_lab_args& args, u32 queue)
        : ref_(reinterpret_cast<const warpbell_queue_ref*>(args.bench.ns.queues)[queue]),
          words_(reinterpret_cast<u64*>(args.state) + static_cast<u64>(queue) * args.queue_words) {}

    WARPBELL_D u64* at(line which) const {
        return words_ + static_cast<u32>(which) * WARPBELL_LAB_LINE_WORDS;
    }
    // Element of an array: the one of an index, counted around the ring.
    WARPBELL_D u64* at(u32 array, u64 index) const {
        const u64 element = static_cast<u64>(array) * entries() + (index & mask());
        return words_ + WARPBELL_LAB_LINES * WARPBELL_LAB_LINE_WORDS + element * WARPBELL_LAB_ENTRY_WORDS;
    }
    WARPBELL_D u64 load(line which) const { return port::load_relaxed_gpu(at(which)); }
    WARPBELL_D void store(line which, u64 value) const { port::store_relaxed_gpu(at(which), value); }
    WARPBELL_D void release(line which, u64 value) const { port::store_release_gpu(at(which), value); }

    WARPBELL_D u32 entries() const { return 1u << ref_.sq_shift; }
    WARPBELL_D u32 mask() const { return entries() - 1u; }
    WARPBELL_D u32 shift() const { return ref_.sq_shift; }

    // ---- locks: tested before they are tried, so that waiting costs no atomic
    WARPBELL_D bool try_lock(u64* word) const {
        return port::load_relaxed_gpu(word) == 0 && port::cas_acquire_gpu(word, 0, 1) == 0;
    }
    WARPBELL_D void unlock(u64* word) const { port::store_release_gpu(word, 0); }

    WARPBELL_D bool broken() const { return load(line::broken) != 0; }
    WARPBELL_D void give_up() const { store(line::broken, 1); }

    // ---- from kernel to kernel
    // One lane of the queue takes over where the last kernel has stopped; the others wait for that. False:
    // the queue is closed, or commands of an earlier kernel are in flight.
    WARPBELL_D bool open(bool opener) const {
        if (opener) {
            take_over();
        }
        while (port::load_acquire_gpu(at(line::open)) == 0) {
            port::pause();
        }
        return load(line::open) == opened;
    }
    // The last one leaves the queue as the next kernel expects it.
    WARPBELL_D void hand_over() const {
        port::fence_gpu();
        if (broken()) {
            port::or_relaxed_gpu(&state()->ticket, WARPBELL_TICKET_CLOSED);
            return;
        }
        const u64 tail = load(line::ticket), head = load(line::head);
        port::store_relaxed_gpu(&state()->ticket, tail);
        port::store_relaxed_gpu(&state()->turn, tail);
        port::store_relaxed_gpu(&state()->rung, static_cast<u32>(tail));
        port::store_relaxed_gpu(&state()->head, head);
        port::store_release_gpu(&state()->reap, tail);
    }
    // Whether this was the last warp of `warps`.
    WARPBELL_D bool leave(u32 warps) const {
        port::fence_gpu();
        const bool last = port::fetch_add_relaxed_gpu(at(line::left), 1) + 1u == warps;
        port::fence_gpu();
        return last;
    }

    // ---- rings
    WARPBELL_D void write_entry(u64 index, u32 cid, const sqe& entry) const {
        u32* slot = reinterpret_cast<u32*>(ref_.sq) + (index & mask()) * 16u;
        const u32* d = entry.dword;
        port::store_quad(slot, (d[0] & 0xffffu) | cid << 16, d[1], d[2], d[3]);
        port::store_quad(slot + 4, d[4], d[5], d[6], d[7]);
        port::store_quad(slot + 8, d[8], d[9], d[10], d[11]);
        port::store_quad(slot + 12, d[12], d[13], d[14], d[15]);
        port::count_entry_written();
    }
    // The half of a completion entry with SQHD 15:0, CID 47:32, phase 48 and status 63:49.
    WARPBELL_D u64 completion(u64 index) const {
        return port::load_relaxed_sys(reinterpret_cast<const u64*>(ref_.cq) + (index & mask()) * 2u + 1u);
    }
    WARPBELL_D bool posted(u64 entry, u64 index) const {
        return ((entry >> 48 ^ index >> ref_.cq_shift) & 1u) != 0;
    }
    WARPBELL_D static u32 cid_of(u64 entry) { return static_cast<u32>(entry >> 32) & 0xffffu; }
    WARPBELL_D static status status_of(u64 entry) { return status::from_wire(static_cast<u32>(entry >> 49)); }

    // ---- doorbells: one writer at a time, after a fence
    WARPBELL_D void ring_sq(u64 before, u64 now) const {
        if (reaches(0, before, now)) {
            port::store_sq_doorbell(reinterpret_cast<u32*>(ref_.sq_doorbell), value_of(now));
        }
    }
    WARPBELL_D void ring_cq(u64 before, u64 now) const {
        if (reaches(1, before, now)) {
            port::store_cq_doorbell(reinterpret_cast<u32*>(ref_.cq_doorbell), value_of(now));
        }
    }

  private:
    static constexpr u64 opened = 1, refused = 2;

    WARPBELL_D warpbell_queue_state* state() const {
        return reinterpret_cast<warpbell_queue_state*>(ref_.state);
    }
    WARPBELL_D u32 value_of(u64 index) const { return static_cast<u32>(index) & mask(); }

    // Through shadows in memory, where the queue has them: whether the register must be written as well.
    // As queue_doorbell.cuh does, which says why.
    WARPBELL_D bool reaches(u32 which, u64 before, u64 now) const {
        if ((ref_.flags & WARPBELL_QUEUE_SHADOW) == 0) {
            return true;
        }
        const u64 offset = which ? port::load_relaxed_gpu(&state()->shadow_stride) : 0;
        const u64 shadows = port::load_relaxed_gpu(&state()->shadow);
        const u64 events = port::load_relaxed_gpu(&state()->events);
        port::store_shadow_doorbell(reinterpret_cast<u32*>(shadows + offset), value_of(now));
        port::fence_sc_sys();
        const u32 event = port::load_relaxed_sys(reinterpret_cast<const u32*>(events + offset));
        return ((value_of(now) - event - 1u) & 0xffffu) < ((value_of(now) - value_of(before)) & 0xffffu);
    }

    // The queue must be at rest: every command answered. The controller is told of all completions first.
    WARPBELL_D void take_over() const {
        const u64 ticket = port::load_relaxed_gpu(&state()->ticket);
        const u64 head = port::load_relaxed_gpu(&state()->head);
        const u64 reap = port::load_relaxed_gpu(&state()->reap);
        const u32 surplus = port::load_relaxed_gpu(&state()->surplus);
        const bool at_rest = ticket + surplus == head;
        if (!at_rest) {
            give_up();
        } else if (reap + surplus != head) {
            port::fence_sys();
            ring_cq(reap + surplus, head);
        }
        store(line::base, ticket);
        store(line::ahead, surplus);
        store(line::ticket, ticket);
        store(line::tail, ticket);
        store(line::freed, ticket);
        store(line::head, head);
        release(line::open, at_rest ? opened : refused);
    }

    const warpbell_queue_ref& ref_;
    u64* const words_;
};

// How long one lane waits for one command, over all its loops. It looks at the clock now and then.
class lab_patience {
  public:
    WARPBELL_D lab_patience(const lab_board& board, u64 timeout_ns)
        : board_(board), timeout_ns_(timeout_ns) {}

    WARPBELL_D void begin(u64 now_ns) {
        end_ns_ = now_ns + timeout_ns_;
        polls_ = 0;
    }
    // Whether to stop waiting: the deadline has passed, for which the run ends everywhere; or it has ended.
    WARPBELL_D bool over() {
        if ((++polls_ & 15u) != 0) {
            return false;
        }
        if (!late_ && port::clock_ns() >= end_ns_) {
            late_ = true;
            board_.give_up();
        }
        return late_ || board_.broken();
    }
    // What the lane says then.
    WARPBELL_D status why() const { return late_ ? status(code::timed_out) : status(code::queue_lost); }

  private:
    const lab_board& board_;
    const u64 timeout_ns_;
    u64 end_ns_ = 0;
    u32 polls_ = 0;
    bool late_ = false;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
