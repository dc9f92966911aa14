// Kernel `sim`: every lane carries out commands that the host chose, one by one, and notes for each when it
// was asked for, when it was on its way, when the lane began to wait, when it was answered, and what it
// brought. The host judges: `tests/src/sim`.
#include "src/common.cuh"

#include <simt/module.h>

// Mirrored by tests/src/sim/kernel.rs.
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
    uint32_t answers, status, cid, pad;
    uint64_t asked;     // the lane turned to it; 0: never
    uint64_t submitted; // the submission returned
    uint64_t waited;    // the last wait for it began
    uint64_t answered;
    uint64_t first[4], last[4]; // first and last word of each block that a read brought
};
struct sim_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // slot_bytes for each warp, lane and command in flight
    uint64_t ops;               // sim_op[warps][32][commands]
    uint64_t records;           // sim_record[warps][32][commands], zeroed
    uint64_t deadline_ns;
    uint64_t submit_deadline_ns;
    uint32_t commands, batch, async_depth, slot_bytes, flags;
    uint32_t first_warp; // warps of the launch count from here on when they look for their queue and ids
};
}

namespace kernels {

constexpr u32 sim_none = 0, sim_flush = 1, sim_write = 2, sim_read = 3;
constexpr u32 sim_fua = 1, sim_abandon = 2;
constexpr u32 sim_stale_tokens = 1, sim_whole_batches = 2, sim_poll_first = 4;
constexpr u32 sim_slots = 32;

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
        }
        session_.detach(warp);
    }

  private:
    struct slot {
        io_token token;
        u32 command = 0;
    };

    WARPBELL_D u32 busy() const { return all_ & ~idle_ & ~dead_; }
    WARPBELL_D bool may_submit() const { return next_ < args_.commands && idle_ != 0; }
    // With every buffer held by a command that was given up, a lane can do no more.
    WARPBELL_D bool finished() const { return busy() == 0 && !may_submit(); }
    WARPBELL_D u64 lane_number() const {
        return static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
    }
    WARPBELL_D const sim_op& op(u32 command) const {
        return reinterpret_cast<const sim_op*>(args_.ops)[lane_number() * args_.commands + command];
    }
    WARPBELL_D sim_record& record(u32 command) const {
        return reinterpret_cast<sim_record*>(args_.records)[lane_number() * args_.commands + command];
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
    WARPBELL_D status prepare(u32 k, const sim_op& o, sqe& entry) const {
        if (o.opcode == sim_flush) {
            entry.dword[0] = static_cast<u32>(opcode::flush);
            entry.dword[1] = args_.ns.nsid;
            return status();
        }
        const extent where = {lba(o.lba), o.blocks};
        const dma_span data = data_of(k).subspan(0, static_cast<u64>(o.blocks) * session_.block_bytes());
        const status refusal = session_.check(where, data);
        if (!refusal.ok()) {
            return refusal;
        }
        u64* words = data.template data<u64>();
        for (u32 i = 0; i < o.blocks; ++i) {
            const u64 mark = o.opcode == sim_write ? o.value + i : ~o.value;
            words[i * words_of_block()] = words[(i + 1u) * words_of_block() - 1u] = mark;
        }
        entry = session_.command(o.opcode == sim_write ? opcode::write : opcode::read, where, data);
        entry.dword[12] |= o.flags & sim_fua ? 1u << 30 : 0u;
        return refusal;
    }

    template <class Group> WARPBELL_D void submit(const Group& group, bool want) {
        const u32 k = want ? port::lowest(idle_) : 0, command = next_;
        sqe entry = {};
        status refusal;
        if (want) {
            record(command).asked = port::clock_ns();
            refusal = prepare(k, op(command), entry);
        }
        const bool go = want && refusal.ok();
        io_token token = args_.flags & sim_whole_batches
                             ? session_.queue().submit_whole(group, go, entry, args_.submit_deadline_ns)
                             : session_.queue().submit(group, go, entry, args_.submit_deadline_ns);
        if (!want) {
            return;
        }
        if (!go) {
            token = io_token::refused(refusal);
        }
        record(command).submitted = port::clock_ns();
        record(command).cid = token.in_flight() ? token.cid() : ~0u;
        ask_recycled();
        slot_[k].command = command;
        slot_[k].token = move(token);
        idle_ &= ~(1u << k);
        ++next_;
        skip();
        if (op(command).flags & sim_abandon) {
            record(command).waited = port::clock_ns();
            const status answer = session_.queue().abandon(move(slot_[k].token));
            finish(k, answer, true);
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
            record(slot_[k].command).waited = port::clock_ns();
        }
        if (args_.flags & sim_poll_first) {
            const optional<status> now = session_.queue().try_wait(group, token);
            if (must && now) {
                finish(k, *now, true);
                ask_copy(k, bits);
                return settle_rest(group);
            }
        }
        const status answer = session_.queue().wait(group, move(token), args_.deadline_ns);
        if (!must) {
            return;
        }
        finish(k, answer, true);
        // Whoever still holds a valid token can ask again, and would get a second answer.
        if (token.in_flight() && session_.queue().try_wait(token)) {
            ++record(slot_[k].command).answers;
        }
        token.reset();
        ask_copy(k, bits);
    }

    // The collective wait of the lanes that got no answer from the poll, which this lane joins with nothing.
    template <class Group> WARPBELL_D void settle_rest(const Group& group) {
        io_token none;
        (void)session_.queue().wait(group, move(none), args_.deadline_ns);
    }

    // A copy of a consumed token must be told apart, and never be answered with a status of its own.
    WARPBELL_D void ask_copy(u32 k, u64 bits) {
        consumed_ = bits;
        consumed_by_ = slot_[k].command;
        io_token copy = io_token::from_bits(bits);
        if (!(args_.flags & sim_stale_tokens) || !copy.in_flight()) {
            return copy.reset();
        }
        const optional<status> again = session_.queue().try_wait(copy);
        if (again && !again->is(code::stale_token)) {
            ++record(slot_[k].command).answers;
        }
        copy.reset();
    }

    // The same once its id belongs to another command: stale at once, and no answer.
    WARPBELL_D void ask_recycled() {
        io_token copy = io_token::from_bits(consumed_);
        if ((args_.flags & sim_stale_tokens) && copy.in_flight()) {
            const optional<status> again = session_.queue().try_wait(copy);
            if (!again || !again->is(code::stale_token)) {
                ++record(consumed_by_).answers;
            }
        }
        copy.reset();
    }

    WARPBELL_D void finish(u32 k, status answer, bool first) {
        const u32 command = slot_[k].command;
        sim_record& r = record(command);
        if (r.answers++ == 0 && first) {
            r.status = answer.bits;
            const sim_op& o = op(command);
            if (answer.ok() && o.opcode == sim_read) {
                const u64* words = data_of(k).template data<const u64>();
                for (u32 i = 0; i < o.blocks; ++i) {
                    r.first[i] = words[i * words_of_block()];
                    r.last[i] = words[(i + 1u) * words_of_block() - 1u];
                }
            }
            r.answered = port::clock_ns();
        }
        // The controller may still use the buffer of a command that was given up.
        (answer.buffer_in_use() ? dead_ : idle_) |= 1u << k;
    }

    const sim_args& args_;
    session<Mode> session_;
    u32 all_, idle_, dead_ = 0, next_ = 0;
    u32 consumed_by_ = 0;
    u64 consumed_ = ~0ull; // bits of the token that was answered last, and for which command
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

static const wb_simt_kernel_entry entries[] = {{"sim", sim, sizeof(sim_args)}};
WB_SIMT_EXPORT(entries)
