// Kernel `sim`: every lane carries out commands that the host chose, one by one, and notes for each when it
// was asked for, when it was on its way, when the lane began to wait, when it was answered, and what it
// brought. Where the plan says so, the warp goes over to the queue that replaces a lost one, and commands
// that failed or were lost are asked for again, each try with a record of its own. The host judges:
// `sim/src/sim`.
#include "src/common.cuh"

// Mirrored by sim/src/sim/kernel.rs.
extern "C" {
struct sim_op {
    uint64_t value; // of the first block that a write brings; block i gets value + i
    uint64_t lba;
    uint32_t blocks; // at most 4
    uint32_t opcode; // sim_none, or an NVM opcode + 1
    uint32_t flags;  // sim_fua, sim_abandon
    uint32_t pad;
};
struct sim_record {
    uint32_t answers, status, cid;
    uint32_t queue;     // qid 15:0, and the low half of its epoch
    uint64_t asked;     // the lane turned to it; 0: never
    uint64_t submitted; // the submission returned
    uint64_t waited;    // the last wait for it began
    uint64_t answered;
    uint64_t first[4], last[4]; // first and last word of each block that a read brought
};
// One change of queues by a warp.
struct sim_move {
    uint64_t from, to;          // when it was begun, and over
    uint32_t status;            // what it came to, plus 1; 0: nothing here
    uint32_t queue, next_queue; // before and after, as in sim_record
    uint32_t pad;
};
struct sim_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // slot_bytes for each warp, lane and command in flight
    uint64_t ops;               // sim_op[warps][32][commands]
    uint64_t records;           // sim_record[warps][32][commands][tries], zeroed
    uint64_t moves;             // sim_move[warps][sim_moves], zeroed
    uint64_t timeout_ns;
    uint64_t submit_timeout_ns;
    uint64_t successor_timeout_ns;
    uint32_t commands, tries, batch, async_depth, slot_bytes, flags;
    uint32_t first_warp; // warps of the launch count from here on when they look for their queue and ids
    uint32_t patience;   // changes of queues that may fail before a warp ends
};
}

namespace kernels {

constexpr u32 sim_none = 0, sim_flush = 1, sim_write = 2, sim_read = 3;
constexpr u32 sim_fua = 1, sim_abandon = 2;
constexpr u32 sim_stale_tokens = 1, sim_whole_batches = 2, sim_poll_first = 4;
constexpr u32 sim_switch_to_successor = 8; // go over to the successor of a lost queue
constexpr u32 sim_ask_again = 16;          // there, ask for lost commands again
constexpr u32 sim_retry = 32;              // ask again for what the policy of the library calls retryable
constexpr u32 sim_slots = 32, sim_moves = 64;
constexpr u32 sim_unbounded = 0x100; // in `answers`: the library would have it tried once more than it may be

template <sharing Mode> class sim_warp {
  public:
    WARPBELL_D explicit sim_warp(const sim_args& args)
        : args_(args), session_(this_warp(), args.ns, args.first_warp + warp_number()),
          all_(args.async_depth < sim_slots ? (1u << args.async_depth) - 1u : ~0u), idle_(all_) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        skip();
        while (warp.ballot(!finished()) != 0) {
            for (u32 first = 0; first < WARPBELL_WARP_LANES; first += args_.batch) {
                submit(warp, port::lane() >= first && port::lane() < first + args_.batch && may_submit());
            }
            wait(warp);
            switch_to_successor(warp);
        }
        session_.detach(warp);
    }

  private:
    struct slot {
        io_token token;
        u32 command = 0;
        u32 attempt = 0;
        u32 epoch = 0;      // of the queue that it was asked for on
        u64 not_before = 0; // when it may be asked for again
    };

    // Slots are idle, busy with a token, waiting to be asked for again, or dead: the controller may still use
    // the buffer of a command that was given up.
    WARPBELL_D u32 busy() const { return all_ & ~idle_ & ~dead_ & ~again_; }
    WARPBELL_D bool may_submit() const { return (next_ < args_.commands && idle_ != 0) || due() != 0; }
    // With every buffer held by a command that was given up, a lane can do no more.
    WARPBELL_D bool finished() const { return busy() == 0 && again_ == 0 && !may_submit(); }
    // Commands whose time to be asked for again has come.
    WARPBELL_D u32 due() const {
        const u64 now = again_ != 0 ? port::clock_ns() : 0;
        u32 slots = 0;
        for (u32 left = again_; left != 0; left &= left - 1u) {
            const u32 k = port::lowest(left);
            slots |= slot_[k].not_before <= now ? 1u << k : 0u;
        }
        return slots;
    }
    WARPBELL_D u32 queue_name() {
        const auto& ref = session_.queue().ref();
        return (ref.qid & 0xffffu) | ref.epoch << 16;
    }
    WARPBELL_D u64 lane_number() const {
        return static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
    }
    WARPBELL_D const sim_op& op(u32 command) const {
        return reinterpret_cast<const sim_op*>(args_.ops)[lane_number() * args_.commands + command];
    }
    WARPBELL_D sim_record& record(u32 k) const { return record(slot_[k].command, slot_[k].attempt); }
    WARPBELL_D sim_record& record(u32 command, u32 attempt) const {
        const u64 number = lane_number() * args_.commands + command;
        return reinterpret_cast<sim_record*>(args_.records)[number * args_.tries + attempt];
    }
    WARPBELL_D void skip() {
        while (next_ < args_.commands && op(next_).opcode == sim_none) {
            ++next_;
        }
    }
    WARPBELL_D dma_span data_of(u32 k) const {
        return dma_span(args_.buffer)
            .subspan((lane_number() * args_.async_depth + k) * args_.slot_bytes, args_.slot_bytes);
    }
    WARPBELL_D u64 words_of_block() const { return session_.block_bytes() / 8u; }

    // The entry, and its data: what a write brings, or what a read must not leave there.
    WARPBELL_D status prepare(u32 k, sqe& entry) const {
        const sim_op& o = op(slot_[k].command);
        if (o.opcode == sim_flush) {
            entry.dword[0] = static_cast<u32>(opcode::flush);
            entry.dword[1] = args_.ns.nsid;
            return status();
        }
        const extent where = {lba(o.lba), o.blocks};
        const dma_span data = data_of(k).subspan(0, static_cast<u64>(o.blocks) * session_.block_bytes());
        const opcode op = o.opcode == sim_write ? opcode::write : opcode::read;
        const status refusal = session_.check(op, where, data);
        if (!refusal.ok()) {
            return refusal;
        }
        u64* words = data.template data<u64>();
        for (u32 i = 0; i < o.blocks; ++i) {
            // Each try brings a value of its own, so that contents tell which of them happened.
            const u64 value = o.value + (static_cast<u64>(slot_[k].attempt) << 56) + i;
            const u64 mark = o.opcode == sim_write ? value : ~o.value;
            words[i * words_of_block()] = words[(i + 1u) * words_of_block() - 1u] = mark;
        }
        entry = session_.entry(op, where, data);
        entry.dword[12] |= o.flags & sim_fua ? 1u << 30 : 0u;
        return refusal;
    }

    // A slot for the next command: one that is due again, else a new one.
    WARPBELL_D u32 take_slot() {
        const u32 again = due();
        const u32 k = port::lowest(again != 0 ? again : idle_);
        if (again != 0) {
            again_ &= ~(1u << k);
            ++slot_[k].attempt;
        } else {
            idle_ &= ~(1u << k);
            slot_[k].command = next_++;
            slot_[k].attempt = 0;
            skip();
        }
        slot_[k].epoch = session_.queue().ref().epoch;
        return k;
    }

    template <class Group> WARPBELL_D void submit(const Group& group, bool want) {
        const u32 k = want ? take_slot() : 0;
        sqe entry = {};
        status refusal;
        if (want) {
            record(k).asked = port::clock_ns();
            record(k).queue = queue_name();
            refusal = prepare(k, entry);
        }
        const bool go = want && refusal.ok();
        io_token token = args_.flags & sim_whole_batches
                             ? session_.queue().submit_whole(group, go, entry, args_.submit_timeout_ns)
                             : session_.queue().submit(group, go, entry, args_.submit_timeout_ns);
        if (!want) {
            return;
        }
        if (!go) {
            token = io_token::refused(refusal);
        }
        record(k).submitted = port::clock_ns();
        record(k).cid = token.in_flight() ? token.cid() : ~0u;
        ask_recycled();
        slot_[k].token = move(token);
        if (op(slot_[k].command).flags & sim_abandon) {
            record(k).waited = port::clock_ns();
            const status answer = session_.queue().abandon(move(slot_[k].token));
            finish(k, answer);
        }
    }

    // In the order of submission, so that ids come back while later ones are in flight.
    WARPBELL_D u32 oldest() const {
        u32 k = port::lowest(busy());
        for (u32 left = busy(); left != 0; left &= left - 1u) {
            const u32 other = port::lowest(left);
            if (slot_[other].command < slot_[k].command) {
                k = other;
            }
        }
        return k;
    }

    // A lane that can submit no more waits for one of its commands; the others take part without.
    template <class Group> WARPBELL_D void wait(const Group& group) {
        const bool must = busy() != 0 && !may_submit();
        const u32 k = must ? oldest() : 0;
        io_token none;
        io_token& token = must ? slot_[k].token : none;
        const u64 bits = token.bits();
        if (must) {
            record(k).waited = port::clock_ns();
        } else if (again_ != 0) {
            port::pause();
        }
        if (args_.flags & sim_poll_first) {
            const optional<status> now = session_.queue().try_wait(group, token);
            if (must && now) {
                sim_record& answered = record(k);
                finish(k, *now);
                ask_copy(answered, bits);
                return settle_rest(group);
            }
        }
        const status answer = session_.queue().wait(group, move(token), args_.timeout_ns);
        if (!must) {
            return;
        }
        sim_record& answered = record(k);
        finish(k, answer);
        // Whoever still holds a valid token can ask again, and would get a second answer.
        if (token.in_flight() && session_.queue().try_wait(token)) {
            ++answered.answers;
        }
        token.reset();
        ask_copy(answered, bits);
    }

    // The collective wait of the lanes that got no answer from the poll, which this lane joins with nothing.
    template <class Group> WARPBELL_D void settle_rest(const Group& group) {
        io_token none;
        (void)session_.queue().wait(group, move(none), args_.timeout_ns);
    }

    // What a copy of a consumed token may be told: that it is stale, or that its queue is lost.
    WARPBELL_D bool is_no_answer(status told, bool earlier) const {
        const bool lost = earlier || lost_ || given_up_;
        return told.is(code::stale_token) || (lost && (told.is(code::queue_lost) || told.is(code::ssd_lost)));
    }

    // A copy of a consumed token must be told apart, and never be answered with a status of its own.
    WARPBELL_D void ask_copy(sim_record& answered, u64 bits) {
        consumed_ = bits;
        consumed_by_ = &answered;
        io_token copy = io_token::from_bits(bits);
        if (!(args_.flags & sim_stale_tokens) || !copy.in_flight()) {
            return copy.reset();
        }
        const optional<status> again = session_.queue().try_wait(copy);
        if (again && !is_no_answer(*again, answered.queue != queue_name())) {
            ++answered.answers;
        }
        copy.reset();
    }

    // The same once its id belongs to another command: stale at once, and no answer; lost, if it is a command
    // of an earlier queue.
    WARPBELL_D void ask_recycled() {
        io_token copy = io_token::from_bits(consumed_);
        if ((args_.flags & sim_stale_tokens) && copy.in_flight()) {
            const optional<status> again = session_.queue().try_wait(copy);
            const bool earlier = consumed_by_->queue != queue_name();
            if (!again || !is_no_answer(*again, earlier)) {
                ++consumed_by_->answers;
            }
        }
        copy.reset();
    }

    WARPBELL_D void finish(u32 k, status answer) {
        sim_record& r = record(k);
        if (r.answers++ == 0) {
            r.status = answer.bits;
            const sim_op& o = op(slot_[k].command);
            if (answer.ok() && o.opcode == sim_read) {
                const u64* words = data_of(k).template data<const u64>();
                for (u32 i = 0; i < o.blocks; ++i) {
                    r.first[i] = words[i * words_of_block()];
                    r.last[i] = words[(i + 1u) * words_of_block() - 1u];
                }
            }
            r.answered = port::clock_ns();
        }
        release(k, answer);
    }

    // What becomes of the slot. The controller may still use the buffer of a command that was given up, but
    // for one of a queue that was replaced since: that queue is deleted.
    WARPBELL_D void release(u32 k, status answer) {
        const u32 bit = 1u << k;
        const bool replaced = slot_[k].epoch != session_.queue().ref().epoch;
        lost_ = lost_ || (answer.is(code::queue_lost) && !replaced);
        const bool ask = will_ask_again(k, answer);
        if (answer.buffer_in_use() && !replaced) {
            dead_ |= bit;
            owed_ |= ask ? bit : 0u;
        } else {
            (ask ? again_ : idle_) |= bit;
        }
    }

    WARPBELL_D bool will_ask_again(u32 k, status answer) {
        slot_[k].not_before = 0;
        const u32 left = args_.tries - 1u - slot_[k].attempt;
        if (given_up_ || answer.ok()) {
            return false;
        }
        if (answer.is(code::queue_lost)) {
            return (args_.flags & sim_ask_again) != 0 && left != 0;
        }
        if (!(args_.flags & sim_retry)) {
            return false;
        }
        const optional<u64> delay = retry_delay_ns(session_, answer, left);
        if (delay && left == 0) {
            record(k).answers |= sim_unbounded;
            return false;
        }
        if (delay) {
            slot_[k].not_before = port::clock_ns() + *delay;
        }
        return delay.has_value();
    }

    // Goes over to the queue in place of a lost one, all lanes of the warp together.
    template <class Group> WARPBELL_D void switch_to_successor(const Group& group) {
        if (!(args_.flags & sim_switch_to_successor) || group.ballot(lost_ && !given_up_) == 0) {
            return;
        }
        const u32 before = queue_name();
        const u64 from = port::clock_ns();
        const status answer = session_.switch_to_successor(group, args_.successor_timeout_ns);
        if (group.is_leader()) {
            note_move(from, before, answer);
        }
        ++moves_;
        lost_ = false;
        if (answer.ok()) {
            idle_ |= dead_ & ~owed_;
            again_ |= owed_;
            dead_ = owed_ = 0;
            return;
        }
        if (!answer.is(code::queue_lost) || ++failed_ >= args_.patience) {
            // Nothing more is asked for; what is in flight is still waited for.
            given_up_ = true;
            next_ = args_.commands;
            idle_ |= again_;
            again_ = 0;
        }
        lost_ = !given_up_;
    }

    WARPBELL_D void note_move(u64 from, u32 before, status answer) {
        if (moves_ < sim_moves) {
            sim_move& note = reinterpret_cast<sim_move*>(args_.moves)[warp_number() * sim_moves + moves_];
            note.from = from;
            note.to = port::clock_ns();
            note.status = answer.bits + 1u;
            note.queue = before;
            note.next_queue = queue_name();
        }
    }

    const sim_args& args_;
    session<Mode> session_;
    u32 all_, idle_, dead_ = 0, again_ = 0, next_ = 0;
    u32 owed_ = 0; // of the dead: to be asked for again once their buffers are free
    u32 moves_ = 0, failed_ = 0;
    bool lost_ = false; // some command was answered that the queue is lost
    bool given_up_ = false;
    sim_record* consumed_by_ = nullptr;
    u64 consumed_ = ~0ull; // bits of the token that was answered last, and whose answer it was
    slot slot_[sim_slots];
};

} // namespace kernels

WARPBELL_KERNEL(sim, sim_args) {
    if (args.ns.sharing == WARPBELL_SHARING_SHARED) {
        kernels::sim_warp<warpbell::sharing::shared>(args).run();
    } else {
        kernels::sim_warp<warpbell::sharing::exclusive>(args).run();
    }
}
