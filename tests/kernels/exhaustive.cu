// Kernel `exhaustive`: each warp is one lane, which submits `commands` commands, `async_depth` at a time, and
// waits for each. Made for checks that try every schedule: it does nothing else.
#include "src/abi_check.h"
#include "src/common.cuh"

namespace kernels {

constexpr u32 most_in_flight = 4;
// In a dword of each quarter of an entry, so that a controller can tell a whole entry from one in pieces.
constexpr u32 command_mark = 0x57420000;

// What became of a command, for the host.
struct answer {
    u32 answers, status;
};

template <sharing Mode> class one_lane_warp {
  public:
    WARPBELL_D explicit one_lane_warp(const warpbell_queue_test_args& args)
        : args_(args),
          queue_(this_thread(), *reinterpret_cast<const warpbell_queue_ref*>(args.ns.queues), warp_number()) {
    }

    WARPBELL_D void run() {
        for (u32 first = 0; first < args_.commands; first += args_.async_depth) {
            for (u32 k = 0; k < args_.async_depth; ++k) {
                tokens_[k] = queue_.submit(this_thread(), true, entry_of(number_of(first + k)),
                                           args_.submit_timeout_ns);
            }
            for (u32 k = 0; k < args_.async_depth; ++k) {
                wait(number_of(first + k), tokens_[k]);
            }
        }
        queue_.detach(this_thread());
    }

  private:
    WARPBELL_D u32 number_of(u32 command) const { return warp_number() * args_.commands + command; }

    WARPBELL_D static sqe entry_of(u32 number) {
        sqe entry = {};
        entry.dword[0] = static_cast<u32>(opcode::flush);
        for (u32 i = 3; i < 16; i += 4) {
            entry.dword[i] = command_mark | number;
        }
        return entry;
    }

    WARPBELL_D void wait(u32 number, io_token& token) {
        const u64 bits = token.bits();
        note(number, queue_.wait(this_thread(), move(token), args_.timeout_ns));
        if (!(args_.flags & WARPBELL_TEST_STALE_TOKEN)) {
            token.reset();
            return;
        }
        // What is left of the token must be answered no more, and a copy of it by "stale" only.
        if (token.in_flight()) {
            note_again(number, queue_.try_wait(token));
        }
        token.reset();
        io_token copy = io_token::from_bits(bits);
        const optional<status> again = queue_.try_wait(copy);
        if (again && !again->is(code::stale_token)) {
            note_again(number, again);
        }
        copy.reset();
    }

    WARPBELL_D void note_again(u32 number, optional<status> again) {
        if (again) {
            note(number, *again);
        }
    }

    WARPBELL_D void note(u32 number, status s) {
        answer& a = reinterpret_cast<answer*>(args_.records)[number];
        ++a.answers;
        a.status = s.bits;
    }

    const warpbell_queue_test_args& args_;
    queue<Mode> queue_;
    io_token tokens_[most_in_flight];
};

} // namespace kernels

WARPBELL_KERNEL(exhaustive, warpbell_queue_test_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        one_lane_warp<sharing::exclusive>(args).run();
    } else {
        one_lane_warp<sharing::shared>(args).run();
    }
}
