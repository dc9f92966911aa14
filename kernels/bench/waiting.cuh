// I/Os of one lane that are neither in flight nor done: a command of theirs failed for now, timed out, or was
// lost with its queue. A slot is an I/O and its buffer; slots are named by bits.
#pragma once

#include "common.cuh"
#include "quota.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

class waiting_slots {
  public:
    // What has become of slots, one by one.
    struct change {
        u32 go_on = 0; // the I/O is to be submitted again
        u32 idle = 0;  // the buffer is free, and the I/O was over
        u32 over = 0;  // the I/O has waited for too long; the slot is kept until its buffer is free
    };

    // Slots that nobody may use, and those of them whose I/O is not over.
    WARPBELL_D u32 all() const { return delayed_ | held_ | dead_; }
    WARPBELL_D u32 unfinished() const { return delayed_ | unfinished_; }
    // Something may come of waiting.
    WARPBELL_D u32 hopeful() const { return delayed_ | held_; }

    // An I/O begins; nothing of it is stored here unless it has to wait.
    WARPBELL_D void begin(u32 k) { again_ &= ~(1u << k); }
    WARPBELL_D u32 tries(u32 k) const { return (again_ >> k & 1u) != 0 ? slot_[k].tries : 0u; }
    // It goes on.
    WARPBELL_D void resume(u32 k, u64 now_ns) { slot_[k].at_ns = now_ns; }
    // Since when its command is in flight, if the I/O has begun at `begun_ns`.
    WARPBELL_D u64 since(u32 k, u64 begun_ns) const {
        return (again_ >> k & 1u) != 0 ? slot_[k].at_ns : begun_ns;
    }

    // The I/O goes on at `due_ns`.
    WARPBELL_D void delay(u32 k, u64 due_ns) {
        delayed_ |= 1u << k;
        slot_[k].at_ns = due_ns;
        slot_[k].cid = until_replaced;
    }
    // The buffer is in use, by the command `cid` or, of until_replaced, until the queue is replaced.
    WARPBELL_D void hold(u32 k, u32 cid, bool unfinished, u64 now_ns) {
        held_ |= 1u << k;
        unfinished_ |= unfinished ? 1u << k : 0u;
        slot_[k].at_ns = now_ns;
        slot_[k].cid = cid;
    }
    static constexpr u32 until_replaced = ~0u;

    // Looks after all of them. A buffer is waited for `patience_ns`; if it comes back later, the slot is of
    // use again all the same.
    template <sharing Mode> WARPBELL_D change poll(const queue<Mode>& queue, u64 now_ns, u64 patience_ns) {
        change found;
        for (u32 left = all(); left != 0; left &= left - 1u) {
            const u32 bit = left & (0u - left);
            const slot& of = slot_[port::lowest(left)];
            if (delayed_ & bit) {
                found.go_on |= now_ns >= of.at_ns ? bit : 0u;
            } else if (of.cid != until_replaced && !queue.quarantined(of.cid)) {
                (unfinished_ & bit ? found.go_on : found.idle) |= bit;
            } else if ((held_ & bit) != 0 && now_ns - of.at_ns >= patience_ns) {
                found.over |= unfinished_ & bit;
                held_ &= ~bit;
                unfinished_ &= ~bit;
                dead_ |= bit;
            }
        }
        leave(found);
        return found;
    }
    // The queue was replaced: no buffer is in use any more.
    WARPBELL_D change replaced() {
        change found;
        found.go_on = unfinished_;
        found.idle = (held_ | dead_) & ~unfinished_;
        leave(found);
        return found;
    }
    // Nothing will come of waiting.
    WARPBELL_D change give_up() {
        change found;
        found.over = unfinished();
        dead_ |= held_ | delayed_;
        delayed_ = held_ = unfinished_ = 0;
        return found;
    }

  private:
    struct slot {
        u64 at_ns; // delayed: when it goes on; held: since when; in flight again: since when
        u32 cid;
        u32 tries; // commands of this I/O that were submitted again
    };

    WARPBELL_D void leave(const change& found) {
        const u32 left = found.go_on | found.idle;
        delayed_ &= ~left;
        held_ &= ~left;
        unfinished_ &= ~left;
        dead_ &= ~left;
        for (u32 again = found.go_on; again != 0; again &= again - 1u) {
            const u32 k = port::lowest(again);
            slot_[k].tries = tries(k) + 1u;
        }
        again_ |= found.go_on;
    }

    u32 delayed_ = 0;    // waits for its time
    u32 held_ = 0;       // waits for its buffer
    u32 unfinished_ = 0; // of those: the I/O is not over
    u32 dead_ = 0;       // has waited too long for its buffer
    u32 again_ = 0;      // its I/O was submitted again
    slot slot_[slots_max];
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
