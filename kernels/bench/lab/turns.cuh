// Protocol `turns`, the library's own (queue.cuh): the lanes of a warp that have a command take one ticket
// for all of them, warps ring in turns, and one that waits polls the ring and collects for all.
// `turns-alone`: the same with the calls of one thread, as code has them in which lanes go different ways.
#pragma once

#include "board.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

template <class Group> inline constexpr bool calls_alone = false;
template <> inline constexpr bool calls_alone<this_thread_t> = true;

// `Group`: which lanes call together; `lanes` or this_thread_t.
template <class Group> class turns_protocol {
  public:
    static constexpr bool own_rings = false; // the library keeps the queue's counters

    WARPBELL_D turns_protocol(const warpbell_lab_args& args, const lab_place& place, const lab_board&,
                              session<sharing::shared>&)
        : group_(group_of(place)), timeout_ns_(args.bench.timeout_ns), batch_(batch_of(args.bench, place)) {}

    // The same in all lanes that call together: whether any of them has something to do.
    WARPBELL_D bool go_on(bool mine) const {
        return (group_.mask() >> port::lane() & 1u) != 0 && group_.ballot(mine) != 0;
    }
    WARPBELL_D bool agree(bool stopping) const { return stopping; }

    // Enough lanes can submit, or nothing else goes on.
    WARPBELL_D bool takes(bool want, bool busy) const {
        if (batch_ == 1) {
            return true;
        }
        const u32 able = group_.ballot(want), waiting = group_.ballot(busy);
        return able != 0 && (port::population(able) >= batch_ || waiting == 0);
    }

    WARPBELL_D void submit(session<sharing::shared>& session, bool want, const sqe& entry, u64 now_ns) {
        io_token token = session.queue().submit(group_, want, entry, timeout_ns_);
        if (want) {
            token_ = move(token);
            start_ns_ = now_ns;
        }
    }

    // As the blocking calls do: until a lane has its answer, which can then submit again. A deadline for each
    // call: a lost command ends the run, whether after one deadline or two.
    WARPBELL_D optional<status> poll(session<sharing::shared>& session, bool busy) {
        backoff backoff(timeout_ns_);
        status said;
        (void)session.queue().wait_some(group_, token_, said, busy, backoff);
        if (!busy) {
            return nullopt;
        }
        if (!token_.valid()) {
            return said;
        }
        // Answers of others have no end: the lane's own time may be over.
        if ((++polls_ & 63u) == 0 && port::clock_ns() - start_ns_ >= session.queue().deadline(timeout_ns_)) {
            return session.queue().abandon(move(token_));
        }
        return nullopt;
    }

  private:
    static constexpr bool alone = calls_alone<Group>;

    // Lanes without commands poll with the others where collectives are cheap: together they load more
    // entries.
    WARPBELL_D static Group group_of(const lab_place& place) {
        if constexpr (alone) {
            return this_thread();
        } else {
            const u32 all = 0xffffffffu, idle = WARPBELL_WARP_LANES - place.lanes;
            return lanes(port::polls_alone() == 1 || idle == 0 ? all : ~(all << place.lanes));
        }
    }
    WARPBELL_D static u32 batch_of(const warpbell_bench_args& args, const lab_place& place) {
        const u32 n = args.batch < place.lanes ? args.batch : place.lanes;
        return n != 0 && !alone ? n : 1u;
    }

    const Group group_;
    const u64 timeout_ns_;
    const u32 batch_;
    u64 start_ns_ = 0;
    u32 polls_ = 0;
    io_token token_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
