// One warp of the GPU-resident controller. Lane l watches the doorbells of one queue pair; what one of them
// tells of is fetched, checked and answered by all lanes together, up to 32 entries at a time.
//
// Memory orders. The clients are the unchanged library, which fences at system scope; this side fences at
// gpu scope. Two fences meet if each names a scope that has the other's thread in it, and both threads are
// on this GPU, so gpu scope suffices here. Of the pairs that meet:
//   entries      -> client's F1 -> SQ doorbell | doorbell seen -> fence A -> entries loaded
//   CQEs loaded  -> client's F5 -> CQ doorbell | doorbell seen -> fence A -> CQEs overwritten
//   entries loaded -> fence B -> phase stored  | phase seen -> F5 -> (F6, acquire of room) -> entries
//   overwritten CQE dwords 0, 1 -> fence B -> dwords 2, 3  | phase seen -> F5 -> the rest of the entry
// A lane fences for what other lanes of its warp loaded or stored: sync() orders lanes, and orders add up.
// No lane is said to be the first at a fence, so that the CPU target counts the clients' fences alone.
#pragma once

#include "resident_check.cuh"

namespace kernels {

class controller_warp {
  public:
    WARPBELL_D controller_warp(const warpbell_resident_args& args, u32 number, u32 warps)
        : args_(args), checker_(args), own_(), first_(number), stride_(warps) {
        const u64 index = number + static_cast<u64>(port::lane()) * warps;
        if (index < args.ns.queue_count) {
            own_.load(reinterpret_cast<warpbell_resident_queue*>(args.queues) + index);
            own_.due_ns = own_.accepted != own_.posted ? oldest_due(own_) : 0;
        }
    }

    // Ends once no client can ring any more; asked to stop, at the latest when a client's command times out.
    WARPBELL_D void run() {
        u32 idle = 0, turns = 0;
        bool last = false; // no client can ring any more
        while ((++turns & 1023u) != 0 || !must_stop()) {
            poll_doorbells();
            const u64 now = clock();
            u32 ready = warp_.ballot(own_.has_work(args_.delay_ns != 0, now));
            if (ready != 0) {
                port::fence_gpu_group(false); // A
                warp_.sync();
                WARPBELL_NO_UNROLL
                for (; ready != 0; ready &= ready - 1u) {
                    serve(port::lowest(ready), now);
                }
            } else if (last && warp_.ballot(own_.can_answer_later()) == 0) {
                break;
            } else {
                last = last || ((++idle & 15u) == 0 && all_clients_ended());
                port::pause();
            }
        }
        own_.save();
    }

  private:
    // A queue pair, in the registers of the lane that watches it. Counts are low halves.
    struct watched {
        warpbell_resident_queue* queue;
        u32* sq_doorbell;
        u32* cq_doorbell;
        u32 mask, published, fetched, accepted, posted, taken;
        u32 bad_tail, bad_head; // doorbell values that were complained about already
        u32 commands;           // of this launch
        u64 due_ns;             // of the oldest command on its way

        WARPBELL_D void load(warpbell_resident_queue* from) {
            queue = from;
            sq_doorbell = reinterpret_cast<u32*>(from->sq_doorbell);
            cq_doorbell = reinterpret_cast<u32*>(from->cq_doorbell);
            mask = (1u << from->shift) - 1u;
            published = from->published;
            fetched = from->fetched;
            accepted = from->accepted;
            posted = from->posted;
            taken = from->taken;
            bad_tail = published & mask;
            bad_head = taken & mask;
        }
        WARPBELL_D void save() const {
            if (queue) {
                queue->published = published;
                queue->fetched = fetched;
                queue->accepted = accepted;
                queue->posted = posted;
                queue->taken = taken;
                queue->commands += commands;
            }
        }
        // Completions that may be posted without overrunning the ring: one entry stays free.
        WARPBELL_D u32 room() const { return mask - (posted - taken); }
        // Commands that may be accepted: on their way, there is one record for each entry.
        WARPBELL_D u32 free_slots() const { return mask + 1u - (accepted - posted); }
        WARPBELL_D bool has_work(bool delayed, u64 now) const {
            if (!queue) {
                return false;
            }
            if (!delayed) {
                return published != fetched && room() != 0;
            }
            return (published != fetched && free_slots() != 0) ||
                   (accepted != posted && room() != 0 && now >= due_ns);
        }
        WARPBELL_D bool can_answer_later() const { return queue && accepted != posted && room() != 0; }
    };

    // What serving a queue takes, in every lane.
    struct served {
        warpbell_resident_queue* queue;
        u32 lane; // that watches it
        u32 mask, published, fetched, accepted, posted, room;
    };

    // A lane's command of those that were just fetched.
    struct command {
        bool valid;
        bool owns_cid; // no other in flight has its identifier
        u32 cid, status;
    };

    WARPBELL_D u64 clock() const { return args_.delay_ns ? warp_.broadcast(port::clock_ns()) : 0; }

    // Clients that see the stop flag wait for their commands: they are answered until then.
    WARPBELL_D bool must_stop() {
        bool stop = false;
        if (warp_.is_leader() && stop_asked(args_.mailbox)) {
            const u64 now = port::clock_ns();
            asked_ns_ = asked_ns_ == 0 ? now : asked_ns_;
            stop = now - asked_ns_ > args_.timeout_ns + grace_ns;
        }
        return warp_.ballot(stop) != 0;
    }

    WARPBELL_D bool all_clients_ended() const {
        const u32* ended = reinterpret_cast<const u32*>(args_.ended);
        const u32 count = warp_.broadcast(warp_.is_leader() ? port::load_relaxed_gpu(ended) : 0u);
        if (count < args_.clients) {
            return false;
        }
        port::fence_gpu_group(false); // their last doorbells before the last poll
        return true;
    }

    // ---- doorbells: by each lane, for its own queue. A poller sees the latest value only, so a value that
    // is written twice, or written over, goes unnoticed.

    WARPBELL_D void poll_doorbells() {
        if (!own_.queue) {
            return;
        }
        const u32 tail = port::load_relaxed_sys(own_.sq_doorbell);
        const u32 head = port::load_relaxed_sys(own_.cq_doorbell);
        if (tail != (own_.published & own_.mask) && tail != own_.bad_tail) {
            take_tail(tail);
        }
        if (head != (own_.taken & own_.mask) && head != own_.bad_head) {
            take_head(head);
        }
    }

    WARPBELL_D void take_tail(u32 tail) {
        const u32 published = own_.published + ((tail - own_.published) & own_.mask);
        if (tail > own_.mask) {
            note_doorbell(WARPBELL_RULE_DOORBELL_RANGE, tail);
        } else if (published - own_.fetched > own_.mask) {
            note_doorbell(WARPBELL_RULE_DOORBELL_OVERRUN, tail);
        } else {
            own_.published = published;
            own_.bad_tail = own_.published & own_.mask;
            return;
        }
        own_.bad_tail = tail;
    }

    WARPBELL_D void take_head(u32 head) {
        const u32 taken = own_.taken + ((head - own_.taken) & own_.mask);
        if (head > own_.mask) {
            note_doorbell(WARPBELL_RULE_DOORBELL_RANGE, head);
        } else if (taken - own_.taken > own_.posted - own_.taken) {
            note_doorbell(WARPBELL_RULE_CQ_HEAD_BEYOND_TAIL, head);
        } else {
            own_.taken = taken;
            own_.bad_head = own_.taken & own_.mask;
            return;
        }
        own_.bad_head = head;
    }

    WARPBELL_D void note_doorbell(u32 rule, u32 value) { note(own_.queue, rule, 1, 0, own_.fetched, value); }

    // By one lane at a time.
    WARPBELL_D static void note(warpbell_resident_queue* queue, u32 rule, u32 times, u32 cid, u32 fetched,
                                u64 value) {
        if (queue->first_rule == 0) {
            queue->first_rule = rule + 1u;
            queue->first_cid = cid;
            queue->first_fetched = fetched;
            queue->first_value = value;
        }
        queue->broken[rule] += times;
    }

    // ---- commands: by the warp

    WARPBELL_D void serve(u32 lane, u64 now) {
        served q;
        q.lane = lane;
        q.queue = reinterpret_cast<warpbell_resident_queue*>(args_.queues) + first_ +
                  static_cast<u64>(lane) * stride_;
        q.mask = from(lane, own_.mask);
        q.published = from(lane, own_.published);
        q.fetched = from(lane, own_.fetched);
        q.accepted = from(lane, own_.accepted);
        q.posted = from(lane, own_.posted);
        q.room = from(lane, own_.room());
        if (args_.delay_ns == 0) {
            answer_at_once(q);
        } else {
            accept(q, now);
            answer_due(q, now);
        }
        if (port::lane() == lane) {
            own_.fetched = q.fetched;
            own_.commands += q.accepted - own_.accepted;
            own_.accepted = q.accepted;
            own_.posted = q.posted;
            own_.due_ns = q.accepted != q.posted ? oldest_due(own_) : 0;
        }
    }

    WARPBELL_D u32 from(u32 lane, u32 value) const { return port::shuffle(warp_.mask(), value, lane); }
    WARPBELL_D static u32 least(u32 a, u32 b) { return a < b ? a : b; }

    WARPBELL_D void answer_at_once(served& q) {
        const u32 n = least(least(q.published - q.fetched, q.room), WARPBELL_WARP_LANES);
        const command c = fetch(q, n, nullptr);
        post(q, c.valid, c.cid, c.status);
    }

    // Takes commands on, to be answered later.
    WARPBELL_D void accept(served& q, u64 now) {
        const u32 free_slots = q.mask + 1u - (q.accepted - q.posted);
        const u32 n = least(least(q.published - q.fetched, free_slots), WARPBELL_WARP_LANES);
        if (n == 0) {
            return;
        }
        const u32 first = q.accepted;
        const command c = fetch(q, n, reinterpret_cast<u8*>(q.queue->in_flight));
        if (c.valid) {
            warpbell_resident_flight* flight = flights(q.queue) + ((first + rank_in(valid_)) & q.mask);
            flight->due_ns = now + args_.delay_ns;
            flight->cid = c.cid;
            flight->status = c.status | (c.owns_cid ? owner : 0);
        }
        warp_.sync();
    }

    // Answers those whose time has come, in the order in which they were fetched.
    WARPBELL_D void answer_due(served& q, u64 now) {
        const u32 n = least(least(q.accepted - q.posted, q.room), WARPBELL_WARP_LANES);
        warpbell_resident_flight flight = {};
        bool due = false;
        if (port::lane() < n) {
            flight = flights(q.queue)[(q.posted + port::lane()) & q.mask];
            due = now >= flight.due_ns;
        }
        const u32 wait = ~warp_.ballot(due);
        due = due && (wait == 0 || port::lane() < port::lowest(wait));
        if (due && (flight.status & owner) != 0) {
            reinterpret_cast<u8*>(q.queue->in_flight)[flight.cid] = 0;
        }
        post(q, due, flight.cid, flight.status & WARPBELL_SLOT_STATUS);
    }

    WARPBELL_D static warpbell_resident_flight* flights(warpbell_resident_queue* queue) {
        return reinterpret_cast<warpbell_resident_flight*>(queue->flights);
    }
    WARPBELL_D static u64 oldest_due(const watched& w) { return flights(w.queue)[w.posted & w.mask].due_ns; }

    // The next n entries, one for each of the first n lanes.
    WARPBELL_D command fetch(served& q, u32 n, u8* in_flight) {
        const bool mine = port::lane() < n;
        entry_fields e = {};
        u32 broken = 0;
        if (mine) {
            u32* at = reinterpret_cast<u32*>(q.queue->sq) + ((q.fetched + port::lane()) & q.mask) * 16u;
            for (u32 i = 0; i < 16; i += 4) {
                port::load_quad(at + i, e.dword[i], e.dword[i + 1], e.dword[i + 2], e.dword[i + 3]);
            }
            broken = checker_.check(e);
            if (args_.flags & WARPBELL_RESIDENT_POISON) {
                port::store_relaxed_gpu(at, WARPBELL_RESIDENT_POISONED);
            }
        }
        command c;
        c.cid = e.cid();
        c.valid = mine && (broken & rule_bit(WARPBELL_RULE_STALE_ENTRY)) == 0;
        // Each lane that has no command gets a value that none has.
        const u32 alike = warp_.match(c.valid ? c.cid : 0x10000u | port::lane());
        c.owns_cid = rank_in(alike) == 0 && (!c.valid || !in_flight || in_flight[c.cid] == 0);
        if (!c.owns_cid) {
            broken |= rule_bit(WARPBELL_RULE_CID_IN_FLIGHT);
        }
        warp_.sync(); // every lane has looked for its identifier
        if (c.valid && c.owns_cid && in_flight) {
            in_flight[c.cid] = 1;
        }
        c.status = checker_.status_for(broken, e.lba());
        if (warp_.ballot(broken != 0) != 0) {
            note_commands(q, broken, e);
        }
        if (args_.flags & WARPBELL_RESIDENT_DIGEST) {
            const u64 digest = sum(warp_, c.valid ? command_digest(e.lba(), c.cid) : 0);
            if (port::lane() == q.lane) {
                q.queue->digest += digest;
            }
        }
        valid_ = warp_.ballot(c.valid);
        q.fetched += n;
        q.accepted += port::population(valid_);
        return c;
    }

    WARPBELL_D void note_commands(const served& q, u32 broken, const entry_fields& e) const {
        WARPBELL_NO_UNROLL
        for (u32 rule = 0; rule < WARPBELL_RULES; ++rule) {
            const u32 by = warp_.ballot((broken & rule_bit(rule)) != 0);
            if (by != 0 && port::lane() == port::lowest(by)) {
                note(q.queue, rule, port::population(by), e.cid(), q.fetched + port::lane(),
                     entry_checker::value_at_fault(rule, e));
            }
            warp_.sync();
        }
    }

    // Posts the completions of the lanes that answer, in the order of lanes. There is room for all.
    WARPBELL_D void post(served& q, bool answers, u32 cid, u32 status) {
        const u32 all = warp_.ballot(answers), index = q.posted + rank_in(all);
        u64* entry = reinterpret_cast<u64*>(q.queue->cq) + (index & q.mask) * 2u;
        if (answers) {
            port::store_relaxed_gpu(entry, 0); // dwords 0 and 1: nothing to say
        }
        warp_.sync();
        port::fence_gpu_group(false); // B
        if (answers) {
            const u32 lap = index >> q.queue->shift;
            const u32 low = (q.fetched & q.mask) | q.queue->qid << 16;
            const u32 high = cid | (~lap & 1u) << 16 | status << 17;
            // One store of 8 bytes: the phase never comes before the rest.
            port::store_relaxed_gpu(entry + 1, static_cast<u64>(high) << 32 | low);
        }
        q.posted += port::population(all);
        q.room -= port::population(all);
    }

    static constexpr u64 grace_ns = 1000u * 1000 * 1000; // beyond the timeout of a command
    static constexpr u32 owner = 1u << 31; // of warpbell_resident_flight.status: it has its identifier

    const warpbell_resident_args& args_;
    const entry_checker checker_;
    const this_warp_t warp_ = {};
    watched own_;
    const u32 first_, stride_;
    u64 asked_ns_ = 0; // when the leader saw the stop flag; 0: not yet
    u32 valid_ = 0;    // lanes whose fetched entry is a command
};

} // namespace kernels
