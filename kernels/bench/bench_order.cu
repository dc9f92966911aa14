// Kernels `bench_order_none`, `_delivery` and `_completion`: what `bench` does, in steps of an I/O for each
// lane, several in flight, and each step in that order (ordered.cuh). None: the same steps as requests that
// run by themselves.
#include "quota.cuh"
#include "workload.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

using namespace wb::experimental;

// Steps in flight, at most.
constexpr u32 order_steps = 8;

// A step that has its answer: its place among those in flight, and what this lane was told.
struct taken_step {
    u32 place;
    status said;
};

template <ordering Order> class ordered_steps {
  public:
    WARPBELL_D explicit ordered_steps(u32 steps) : steps_(steps) {}
    // Of the next step.
    WARPBELL_D u32 place() const { return posted_ % steps_; }
    template <class Group, class Session>
    WARPBELL_D void post(const Group& group, Session& s, const command& mine) {
        (void)submit_each(group, s, order_, mine); // refused: take says why
        ++posted_;
    }
    template <class Group, class Session>
    WARPBELL_D taken_step take(const Group& group, Session& s, u64 timeout_ns) {
        const ordered_answer answer = wb::take(group, s, order_, timeout_ns);
        return {taken_++ % steps_, answer.result};
    }

  private:
    io_order<Order, order_steps> order_;
    const u32 steps_;
    u32 posted_ = 0, taken_ = 0;
};

class unordered_steps {
  public:
    WARPBELL_D explicit unordered_steps(u32 steps) : idle_((1u << steps) - 1u) {}
    WARPBELL_D u32 place() const { return port::lowest(idle_); }
    template <class Group, class Session>
    WARPBELL_D void post(const Group& group, Session& s, const command& mine) {
        const u32 k = place();
        (void)submit_each(group, s, requests_[k], mine);
        idle_ &= ~(1u << k);
        busy_ |= 1u << k;
    }
    template <class Group, class Session>
    WARPBELL_D taken_step take(const Group& group, Session& s, u64 timeout_ns) {
        backoff patience(timeout_ns);
        for (;;) {
            for (u32 left = busy_; left != 0; left &= left - 1u) {
                const u32 k = port::lowest(left);
                const optional<status> said = try_wait(group, s, requests_[k]);
                if (group.ballot(!said.has_value()) == 0) {
                    return taken(k, *said);
                }
            }
            const progress_result did = s.queue().progress(group, patience);
            if (did == progress_result::lost || did == progress_result::expired) {
                const u32 k = port::lowest(busy_);
                return taken(k, cancel(group, s, requests_[k]));
            }
        }
    }

  private:
    WARPBELL_D taken_step taken(u32 k, status said) {
        busy_ &= ~(1u << k);
        idle_ |= 1u << k;
        return {k, said};
    }

    io_request<1> requests_[order_steps];
    u32 idle_, busy_ = 0;
};

template <sharing Mode, class Steps> class order_warp : workload {
  public:
    WARPBELL_D order_warp(const warpbell_bench_args& args, const quota& mine, const lanes& group)
        : workload(args, warp_number(), busy_warps(args, warps_of_launch()),
                   static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane()),
          group_(group), session_(group, args.ns, warp_number()), lanes_(mine.lanes()),
          depth_(mine.commands / lanes_ < order_steps ? mine.commands / lanes_ : order_steps),
          steps_(depth_) {}

    WARPBELL_D void run() {
        start(group_);
        for (;;) {
            while (!ending() && in_flight_ < depth_) {
                begin();
            }
            if (in_flight_ == 0) {
                break;
            }
            end(steps_.take(group_, session_, args_.timeout_ns));
        }
        write_result(group_, args_.results, tally_, io_bytes_, warp_number() % args_.ns.queue_count,
                     start_ns_);
        session_.detach(group_);
    }

  private:
    struct flight {
        io what = {};
        u64 start_ns = 0;
        bool mine = false; // this lane has an I/O in the step
    };

    WARPBELL_D dma_span data_of(u32 place) const {
        return workload::data_of(warp_number(), place * WARPBELL_WARP_LANES + port::lane());
    }

    WARPBELL_D void begin() {
        const u32 n = part_of(lanes_), place = steps_.place();
        flight& step = flight_[place];
        step.mine = port::lane() < n;
        optional<extent> where;
        if (step.mine) {
            step.what = draw(port::lane());
            step.start_ns = now_ns_;
            where = extent{lba(step.what.lba), args_.blocks_per_io};
            fill(step.what, data_of(place));
        }
        const dma_span data = data_of(place);
        steps_.post(group_, session_,
                    step.what.writes ? command::write(where, data) : command::read(where, data));
        pass(n);
        ++in_flight_;
    }

    WARPBELL_D void end(const taken_step& taken) {
        --in_flight_;
        tick(group_, (++ticks_ & 15u) == 0);
        const flight& step = flight_[taken.place];
        if (step.mine && taken.said.ok()) {
            succeed(step.what, step.start_ns, data_of(taken.place));
        } else if (step.mine) {
            count(taken.said);
            fail(step.what.lba, taken.said);
        }
        // A buffer that the controller may still use, or a queue that is lost, ends the warp.
        const bool over = taken.said.buffer_in_use() || taken.said.is(code::queue_lost);
        stopping_ = stopping_ || group_.ballot(over) != 0;
    }

    const lanes& group_;
    session<Mode> session_;
    const u32 lanes_, depth_; // of a step; steps in flight
    Steps steps_;
    u32 in_flight_ = 0, ticks_ = 0;
    flight flight_[order_steps];
};

template <class Steps> WARPBELL_D void run_in_order(const warpbell_bench_args& args) {
    const quota mine(args);
    if (port::lane() >= mine.lanes()) {
        return;
    }
    const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - mine.lanes()));
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        order_warp<sharing::exclusive, Steps>(args, mine, group).run();
    } else {
        order_warp<sharing::shared, Steps>(args, mine, group).run();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels

WARPBELL_KERNEL(bench_order_none, warpbell_bench_args) {
    kernels::run_in_order<kernels::unordered_steps>(args);
}
WARPBELL_KERNEL(bench_order_delivery, warpbell_bench_args) {
    kernels::run_in_order<kernels::ordered_steps<kernels::ordering::delivery>>(args);
}
WARPBELL_KERNEL(bench_order_completion, warpbell_bench_args) {
    kernels::run_in_order<kernels::ordered_steps<kernels::ordering::completion>>(args);
}
