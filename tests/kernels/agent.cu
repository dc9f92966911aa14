// Kernel `agent_test`: agent warps and compute warps. Each compute warp writes blocks of its own through its
// agents and reads them back, and notes each answer.
#include <warpbell/warpbell.cuh>

using namespace warpbell;
using namespace warpbell::experimental;

struct agent_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // a block for each round of each lane of a compute warp
    uint64_t request_queues;    // request_queue<2>[compute], zeroed; 0: in the block's shared memory
    uint64_t placed;            // uint64_t: where that is, for who watches
    uint64_t records;           // agent_record[compute][32][rounds]
    uint64_t reports;           // agent_report[agents][32]
    uint64_t stop;
    uint64_t timeout_ns; // of the clients
    uint64_t seed;
    uint32_t agents;
    uint32_t compute;
    uint32_t rounds;
    uint32_t flags;
};

struct agent_record {
    uint32_t answers;
    uint32_t wrote; // status
    uint32_t read;
    uint32_t wrong;
};

namespace {

constexpr uint32_t by_half = 1;      // lanes 0 to 15 and 16 to 31 call apart
constexpr uint32_t two_at_once = 2;  // both slots are used before one is waited for
constexpr uint32_t goes_at_once = 4; // leaves without having waited
constexpr uint32_t backs_off = 8;
constexpr uint32_t stays = 16;     // does not leave
constexpr uint32_t by_opcode = 32; // one request of each kind, by `post`
constexpr uint32_t pauses = 64;    // before each round, until late answers are there
constexpr uint32_t slots = 2;

template <class Scope> struct both {
    const agent_args& args;
    request_queue<slots>* request_queues;

    template <sharing Mode, class Pause> WARPBELL_D void serve(uint32_t index) const {
        session<Mode> ssd(this_warp(), args.ns, index);
        agent<Mode, slots, Scope, Pause> serve(ssd, args.buffer,
                                               {request_queues, args.compute, index, args.agents});
        const agent_report did = serve.run(reinterpret_cast<const uint32_t*>(args.stop));
        reinterpret_cast<agent_report*>(args.reports)[index * 32u + port::lane()] = did;
        ssd.detach(this_warp());
    }

    WARPBELL_D uint64_t content(uint64_t block) const { return (args.seed + block) * 0x9e3779b97f4a7c15u; }
    WARPBELL_D dma_span span(uint32_t warp, uint32_t round) const {
        const uint64_t bytes = 1ull << args.ns.block_shift;
        const uint64_t at = (warp * 32u + port::lane()) * args.rounds + round;
        return dma_span(args.buffer).subspan(at * bytes, bytes);
    }
    WARPBELL_D void note(uint32_t warp, uint32_t round, status said) const {
        agent_record& noted = record(warp, round);
        const uint64_t expected = content(block(warp, round).start.value);
        noted.read = said.bits;
        noted.wrong =
            noted.wrote == 0 && said.ok() && *span(warp, round).template data<uint64_t>() != expected;
        ++noted.answers;
    }
    WARPBELL_D extent block(uint32_t warp, uint32_t round) const {
        return extent{lba((warp * args.rounds + round) * 32u + port::lane()), 1};
    }
    WARPBELL_D agent_record& record(uint32_t warp, uint32_t round) const {
        const uint64_t at = (warp * 32u + port::lane()) * args.rounds + round;
        return reinterpret_cast<agent_record*>(args.records)[at];
    }

    // One block after the other.
    template <class Group, class Client>
    WARPBELL_D void in_turn(const Group& group, Client& io, uint32_t warp) const {
        for (uint32_t round = 0; round < args.rounds; ++round) {
            const dma_span data = span(warp, round);
            const extent where = block(warp, round);
            const uint64_t begin_ns = port::clock_ns();
            while ((args.flags & pauses) != 0 && port::clock_ns() - begin_ns < 5000000u) {
                port::pause();
            }
            *data.data<uint64_t>() = content(where.start.value);
            record(warp, round).wrote = write_each(group, io, where, data, args.timeout_ns).bits;
            *data.data<uint64_t>() = 0;
            note(warp, round, read_each(group, io, where, data, args.timeout_ns));
        }
        if (args.timeout_ns == 0 && args.stop == 0) {
            record(warp, 0).wrote |= flush(group, io).bits;
        }
    }

    // Two at a time.
    template <class Group, class Client>
    WARPBELL_D void in_pairs(const Group& group, Client& io, uint32_t warp) const {
        for (uint32_t round = 0; round + 1u < args.rounds; round += 2) {
            for (uint32_t r = round; r < round + 2u; ++r) {
                *span(warp, r).template data<uint64_t>() = content(block(warp, r).start.value);
            }
            mail_token first = submit_each(group, io, command::write(block(warp, round), span(warp, round)));
            mail_token second =
                submit_each(group, io, command::write(block(warp, round + 1u), span(warp, round + 1u)));
            if ((args.flags & goes_at_once) != 0) {
                return;
            }
            record(warp, round + 1u).wrote = wait_each(group, io, move(second), args.timeout_ns).bits;
            record(warp, round).wrote = wait_each(group, io, move(first), args.timeout_ns).bits;
            for (uint32_t r = round; r < round + 2u; ++r) {
                *span(warp, r).template data<uint64_t>() = 0;
                mail_token token = submit_each(group, io, command::read(block(warp, r), span(warp, r)));
                optional<status> said = try_wait(group, io, token);
                while (!said) {
                    port::pause();
                    said = try_wait(group, io, token);
                }
                note(warp, r, *said);
            }
        }
    }

    // What has no call of its own, and what agents do not take.
    template <class Group, class Client>
    WARPBELL_D void of_each_kind(const Group& group, Client& io, uint32_t warp) const {
        const dma_span data = span(warp, 0);
        const extent where = block(warp, 0);
        const auto run = [&](opcode op, const dma_span& of) {
            return io.wait(group, submit_each(group, io, {op, where, of, 0})).bits;
        };
        agent_record& noted = record(warp, 0);
        *data.data<uint64_t>() = content(where.start.value);
        noted.wrote = run(opcode::write, data);
        noted.wrote |= run(opcode::compare, data);
        noted.wrote |= run(opcode::write_zeroes, dma_span());
        noted.read = run(opcode::read, data);
        noted.wrong = *data.data<uint64_t>() != 0;
        ++noted.answers;
        record(warp, 1).wrote = run(opcode::dataset_management, data);
        // Of another buffer.
        warpbell_buffer_ref other = args.buffer;
        other.iova += 4096;
        record(warp, 1).read = run(opcode::read, dma_span(other).subspan(0, 512));
    }

    template <class Pause> WARPBELL_D void compute(uint32_t warp) const {
        mail_client<slots, Scope, Pause> io(request_queues[warp], args.buffer);
        const auto work = [&](const auto& group) {
            if ((args.flags & by_opcode) != 0) {
                return of_each_kind(group, io, warp);
            }
            (args.flags & two_at_once) != 0 ? in_pairs(group, io, warp) : in_turn(group, io, warp);
        };
        if ((args.flags & by_half) != 0) {
            work(lanes(port::lane() < 16 ? 0xffffu : 0xffff0000u));
        } else {
            work(this_warp());
        }
        if ((args.flags & stays) == 0) {
            io.leave(this_warp());
        }
    }

    template <class Pause> WARPBELL_D void run() const {
        const uint32_t warp =
            port::block_index() * (port::block_threads() / 32u) + port::thread_index() / 32u;
        if (warp >= args.agents) {
            compute<Pause>(warp - args.agents);
        } else if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
            serve<sharing::exclusive, Pause>(warp);
        } else {
            serve<sharing::shared, Pause>(warp);
        }
    }
    WARPBELL_D void start() const { (args.flags & backs_off) != 0 ? run<back_off>() : run<eager>(); }
};

} // namespace

WARPBELL_KERNEL(agent_test, agent_args) {
    if (args.request_queues != 0) {
        both<in_device>{args, reinterpret_cast<request_queue<slots>*>(args.request_queues)}.start();
        return;
    }
    auto* request_queues = static_cast<request_queue<slots>*>(port::block_memory());
    uint32_t* words = reinterpret_cast<uint32_t*>(request_queues);
    for (uint32_t i = port::thread_index(); i < sizeof(*request_queues) / 4u * args.compute;
         i += port::block_threads()) {
        words[i] = 0;
    }
    if (port::thread_index() == 0) {
        *reinterpret_cast<uint64_t*>(args.placed) = reinterpret_cast<uint64_t>(request_queues);
    }
    port::sync_block();
    both<in_block>{args, request_queues}.start();
}
