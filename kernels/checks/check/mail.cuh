// Mailboxes in a block's shared memory: its first warp is the agent of the second.
#pragma once

#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {
using namespace warpbell::experimental;

constexpr u32 check_slots = 2;
using check_request_queue = request_queue<check_slots>;

// Posts, and never sees a queue.
class mail_sender : checker {
  public:
    // Requests of each lane in a round that reach the agent; one more is of the whole warp.
    static constexpr u32 requests = 7;

    WARPBELL_D mail_sender(const warpbell_check_args& args, check_request_queue& requests)
        : checker(args, port::block_index()), io_(requests, args.buffer) {}

    WARPBELL_D void run() {
        for (u32 round = 0; goes_on(round); ++round) {
            two_at_once(1u + round);
            of_each_kind();
        }
        io_.leave(warp_);
        finish();
    }

  private:
    WARPBELL_D static u32 own(u32 k) { return check_slots * port::lane() + k; }
    WARPBELL_D status request(opcode op, u32 k) {
        return io_.wait(warp_, submit_each(warp_, io_, {op, blocks(own(k)), data(own(k)), 0}));
    }
    WARPBELL_D status look(mail_token&& token) {
        optional<status> said;
        while (!said && !stopped()) {
            said = try_wait(warp_, io_, token);
            port::pause();
        }
        return said ? *said : status(code::aborted);
    }

    WARPBELL_D void two_at_once(u32 version) {
        fill(own(0), own(2), 1, version);
        mail_token first = submit_each(warp_, io_, command::write(blocks(own(0)), data(own(0))));
        mail_token second = submit_each(warp_, io_, command::write(blocks(own(1)), data(own(1))));
        mail_token third = submit_each(warp_, io_, command::write(blocks(own(0)), data(own(0))));
        found_.told(1, wait_each(warp_, io_, move(third)), code::no_room);
        found_.told(2, wait_each(warp_, io_, move(second)));
        found_.told(3, wait_each(warp_, io_, move(first)));
        fill(own(0), own(2), 1, zeros);
        found_.told(4, read_each(warp_, io_, blocks(own(0)), data(own(0))));
        found_.told(5, look(submit_each(warp_, io_, command::read(blocks(own(1)), data(own(1))))));
        found_.saw(6, holds(own(0), own(2), 1, version));
    }

    // What has no call of its own, and what agents do not take.
    WARPBELL_D void of_each_kind() {
        found_.told(7, request(opcode::compare, 0));
        found_.told(8, request(opcode::write_zeroes, 0));
        found_.told(9, request(opcode::read, 0));
        found_.saw(10, holds(own(0), own(1), 1, zeros));
        found_.told(11, flush(warp_, io_));
        found_.told(12, request(opcode::dataset_management, 0), code::invalid_field);
    }

    mail_client<check_slots, in_block> io_;
};

template <sharing Mode> class mail_agent : check_warp<Mode> {
  public:
    WARPBELL_D explicit mail_agent(const warpbell_check_args& args)
        : check_warp<Mode>(args, port::block_index()) {}

    WARPBELL_D void run(check_request_queue& requests) {
        agent<Mode, check_slots, in_block, back_off> serves(this->s_, this->args_.buffer,
                                                            {&requests, 1, 0, 1});
        const agent_report did = serves.run(this->stop_word());
        const u64 asked = static_cast<u64>(this->args_.rounds) * (mail_sender::requests * 32u + 1u);
        const bool all = sum(this_warp(), did.requests) == asked && did.refused == 0;
        this->found_.judge(13, status(), all);
        this->finish();
    }
};

WARPBELL_D void run_mail_check(const warpbell_check_args& args) {
    auto& requests = *static_cast<check_request_queue*>(port::block_memory());
    u32* words = reinterpret_cast<u32*>(&requests);
    for (u32 i = port::thread_index(); i < sizeof(requests) / 4u; i += port::block_threads()) {
        words[i] = 0;
    }
    port::sync_block();
    if (port::thread_index() >= WARPBELL_WARP_LANES) {
        mail_sender(args, requests).run();
    } else if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        mail_agent<sharing::exclusive>(args).run(requests);
    } else {
        mail_agent<sharing::shared>(args).run(requests);
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
