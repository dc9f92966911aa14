// Kernel `queue_test`: what the tests of the queue protocol run. Every lane issues commands through the
// raw queue and notes each answer, so that the host can tell a lost command from one answered twice.
#include "abi_check.h"
#include "common.cuh"

namespace kernels {

constexpr u32 test_slots_max = 32;

template <sharing Mode> class test_warp {
  public:
    WARPBELL_D explicit test_warp(const warpbell_queue_test_args& args)
        : args_(args), session_(this_warp(), args.ns, warp_number()),
          depth_(args.async_depth < test_slots_max ? args.async_depth : test_slots_max),
          idle_(depth_ < 32 ? (1u << depth_) - 1u : ~0u) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        const u64 start_ns = port::clock_ns();
        const u32 batch = args_.batch < WARPBELL_WARP_LANES ? args_.batch : WARPBELL_WARP_LANES;
        while (warp.ballot(!finished()) != 0) {
            for (u32 first = 0; first < WARPBELL_WARP_LANES; first += batch) {
                submit(warp, port::lane() >= first && port::lane() < first + batch && may_submit());
            }
            wait(warp);
        }
        write_result(warp, args_.results, tally_, session_.block_bytes(),
                     warp_number() % args_.ns.queue_count, start_ns);
        session_.detach(warp);
    }

  private:
    struct slot {
        io_token token;
        u32 command = 0;
        u64 lba = 0;
    };

    WARPBELL_D u32 busy() const { return (depth_ < 32 ? (1u << depth_) - 1u : ~0u) & ~idle_ & ~dead_; }
    // With every buffer held by a timed-out command a lane can do no more.
    WARPBELL_D bool finished() const { return busy() == 0 && (next_ == args_.commands || idle_ == 0); }
    WARPBELL_D bool reads_back() const { return args_.mode == WARPBELL_TEST_WRITE_READ && (next_ & 1u) != 0; }
    WARPBELL_D bool may_submit() const {
        // A read must not overtake the write that it checks.
        return next_ < args_.commands && idle_ != 0 && !(reads_back() && busy() != 0);
    }
    WARPBELL_D u64 lane_number() const {
        return static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
    }
    WARPBELL_D u64 lba_of_next() const {
        const u64 tag = lane_number() * args_.commands + next_;
        if (args_.mode == WARPBELL_TEST_READ) {
            return below(args_.ns.blocks, random_number(args_.seed, tag));
        }
        return reads_back() ? tag - 1u : tag;
    }
    WARPBELL_D dma_span data_of(u32 k) const {
        const u64 bytes = session_.block_bytes();
        return dma_span(args_.buffer).subspan((lane_number() * args_.async_depth + k) * bytes, bytes);
    }
    WARPBELL_D u64 last_word() const { return session_.block_bytes() / 8u - 1u; }
    WARPBELL_D warpbell_test_record& record_of(u32 command) const {
        return reinterpret_cast<warpbell_test_record*>(
            args_.records)[lane_number() * args_.commands + command];
    }
    WARPBELL_D bool is_read(u32 command) const {
        return args_.mode == WARPBELL_TEST_READ ||
               (args_.mode == WARPBELL_TEST_WRITE_READ && (command & 1u) != 0);
    }

    WARPBELL_D sqe prepare(u32 k, u64 block) const {
        sqe entry = {};
        if (args_.mode == WARPBELL_TEST_FLUSH) {
            entry.dword[0] = static_cast<u32>(opcode::flush);
            entry.dword[1] = args_.ns.nsid;
            return entry;
        }
        // What a read must not leave there, and what a write must bring.
        const u64 content = splitmix64(args_.seed ^ block), mark = is_read(next_) ? ~content : content;
        u64* words = data_of(k).template data<u64>();
        words[0] = words[last_word()] = mark;
        return session_.entry(is_read(next_) ? opcode::read : opcode::write, {lba(block), 1}, data_of(k));
    }

    template <class Group> WARPBELL_D void submit(const Group& group, bool want) {
        const u32 k = want ? port::lowest(idle_) : 0;
        sqe entry = {};
        if (want) {
            slot_[k].lba = lba_of_next();
            entry = prepare(k, slot_[k].lba);
        }
        io_token token = session_.queue().submit(group, want, entry, args_.submit_timeout_ns);
        if (!want) {
            return;
        }
        slot_[k].command = next_++;
        idle_ &= ~(1u << k);
        record_of(slot_[k].command).cid = token.in_flight() ? token.cid() : ~0u;
        record_of(slot_[k].command).lba = slot_[k].lba;
        slot_[k].token = move(token);
    }

    // Answered in the order of submission, so that ids come back while later ones are in flight.
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
        if (args_.flags & WARPBELL_TEST_STALE_TOKEN) {
            compare_answers();
        }
        const status s = session_.queue().wait(group, move(token), args_.timeout_ns);
        if (!must) {
            return;
        }
        answer(k, s);
        // Whoever still holds a valid token can ask again, and would get a second answer.
        if (token.in_flight() && session_.queue().try_wait(token)) {
            ++record_of(slot_[k].command).answers;
        }
        token.reset();
        if (args_.flags & WARPBELL_TEST_STALE_TOKEN) {
            ask_copy(k, io_token::from_bits(bits));
        }
        (s.buffer_in_use() ? dead_ : idle_) |= 1u << k;
    }

    // What is_answered says of each command answered() says of all: answers come meanwhile, and none goes.
    WARPBELL_D void compare_answers() {
        const auto& queue = session_.queue();
        for (u32 left = busy(); left != 0; left &= left - 1u) {
            const u32 k = port::lowest(left);
            if (!slot_[k].token.in_flight()) {
                continue;
            }
            const u32 id = queue.id(slot_[k].token);
            const bool early = (queue.answered() >> id & 1u) != 0, is = queue.is_answered(slot_[k].token);
            const bool late = (queue.answered() >> id & 1u) != 0;
            record_of(slot_[k].command).answers += (early && !is) || (is && !late) ? 1u : 0u;
        }
    }

    // A copy of a consumed token must be told apart, and never be answered with a status of its own.
    WARPBELL_D void ask_copy(u32 k, io_token&& copy) {
        if (!copy.in_flight()) {
            return;
        }
        const optional<status> again = session_.queue().try_wait(copy);
        if (again && !again->is(code::stale_token)) {
            ++record_of(slot_[k].command).answers;
        }
        copy.reset();
    }

    WARPBELL_D void answer(u32 k, status s) {
        const u32 command = slot_[k].command;
        warpbell_test_record& record = record_of(command);
        if (record.answers++ == 0) {
            record.status = s.bits;
        }
        if (!s.ok()) {
            tally_.error(slot_[k].lba, s);
            return;
        }
        ++(is_read(command) ? tally_.reads : tally_.writes);
        if (!is_read(command)) {
            return;
        }
        const u64 content = splitmix64(args_.seed ^ slot_[k].lba);
        const u64* words = data_of(k).template data<const u64>();
        const bool right = words[0] == content && words[last_word()] == content;
        record.payload = right ? 1 : 2;
        if (!right) {
            record.found = words[0] != content ? words[0] : words[last_word()];
            tally_.mismatch({slot_[k].lba, 1, 0, 0});
        }
    }

    const warpbell_queue_test_args& args_;
    session<Mode> session_;
    const u32 depth_;
    u32 idle_;     // bit k: slot k may be used
    u32 dead_ = 0; // bit k: its command timed out, and may still write to the buffer
    u32 next_ = 0; // command to issue
    tally tally_;
    slot slot_[test_slots_max];
};

} // namespace kernels

WARPBELL_KERNEL(queue_test, warpbell_queue_test_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        test_warp<sharing::exclusive>(args).run();
    } else {
        test_warp<sharing::shared>(args).run();
    }
}
