// Kernel `try_lease`: one warp makes the calls of io.cuh that it is told to, with whatever arguments, and
// notes the answers.
#include <warpbell/warpbell.cuh>

using namespace warpbell;

constexpr uint32_t call_read_each = 0;
constexpr uint32_t call_write_each = 1;
constexpr uint32_t call_read = 2; // the arguments of lane 0 are everybody's
constexpr uint32_t call_write = 3;
constexpr uint32_t call_read_async = 4;
constexpr uint32_t call_write_async = 5;

struct attempt {
    uint64_t lba;
    uint64_t offset; // of the data, in bytes from the start of the buffer
    uint64_t bytes;
    uint32_t blocks;
    uint32_t status; // the answer
};

struct lease_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t attempts; // attempt[rounds][32]
    uint32_t rounds;
    uint32_t call;
};

WARPBELL_KERNEL(try_lease, lease_args) {
    const this_warp_t warp;
    session<sharing::exclusive> s(warp, args.ns, 0);
    const bool each = args.call == call_read_each || args.call == call_write_each;
    for (uint32_t round = 0; round < args.rounds; ++round) {
        attempt* row = reinterpret_cast<attempt*>(args.attempts) + round * 32u;
        const attempt& asked = row[each ? port::lane() : 0u];
        const extent where{lba(asked.lba), asked.blocks};
        const dma_span data = dma_span(args.buffer).subspan(asked.offset, asked.bytes);
        status answer;
        switch (args.call) {
        case call_read_each:
            answer = read_each(warp, s, where, data);
            break;
        case call_write_each:
            answer = write_each(warp, s, where, data);
            break;
        case call_read:
            answer = read(warp, s, where, data);
            break;
        case call_write:
            answer = write(warp, s, where, data);
            break;
        case call_read_async:
            answer = wait(warp, s, submit(warp, s, command::read(where, data)));
            break;
        default:
            answer = wait(warp, s, submit(warp, s, command::write(where, data)));
            break;
        }
        row[port::lane()].status = answer.bits;
    }
    s.detach(warp);
}
