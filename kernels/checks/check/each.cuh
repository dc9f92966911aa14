// Reads and writes of a lane's own, of some lanes of a warp, of a group as one, and of one thread.
#pragma once

#include "cooperative.cuh"
#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// In round r those lanes have something to do whose number r + 1 divides, but every fourth round begins anew.
// They call by themselves; of an exclusive queue all lanes call.
template <sharing Mode> class each_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit each_check(const warpbell_check_args& args) : check_warp<Mode>(args, warp_number()) {}

    WARPBELL_D void run() {
        for (u32 round = 0; this->goes_on(round); ++round) {
            const bool mine = lane_ % (round % 4u + 1u) == 0;
            const lanes some = lanes_where(mine);
            const u32 version = 1u + 8u * round;
            if (Mode == sharing::exclusive || mine) {
                const lanes group(Mode == sharing::exclusive ? 0xffffffffu : some.mask());
                each_waits(group, mine, version);
                each_looks(group, mine, version + 1u);
                group_waits(group, version + 2u);
                group_returns(group, version + 3u);
            }
            this_warp().sync();
            if (Mode == sharing::shared && port::lane() == round % WARPBELL_WARP_LANES) {
                alone(version + 4u);
            }
            this_warp().sync();
            cooperate(mine, version + 6u);
            this_warp().sync();
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_;
    static constexpr u32 together = 48; // blocks of a group's I/O

    // A lane has 1 to 4 blocks.
    WARPBELL_D u32 own() const { return 4u * lane_; }
    WARPBELL_D u32 end() const { return own() + 1u + lane_ % 4u; }
    WARPBELL_D dma_span mine_at() const { return this->data(own(), end() - own()); }
    WARPBELL_D optional<extent> mine_if(bool wanted) const {
        return wanted ? optional<extent>(this->blocks(own(), end() - own())) : optional<extent>();
    }

    template <class Group> WARPBELL_D void each_waits(const Group& group, bool mine, u32 version) {
        const optional<extent> where = mine_if(mine);
        this->fill(own(), end(), 1, version);
        found_.told(1, write_each(group, s_, where, mine_at()));
        this->fill(own(), end(), 1, this->zeros);
        found_.told(2, read_each(group, s_, where, mine_at()));
        found_.saw(3, this->holds(own(), end(), 1, mine ? version : this->zeros));
    }

    // Looks at its token until the answer is there.
    WARPBELL_D status look(const lanes& group, io_token&& token) {
        optional<status> said;
        for (;;) {
            const optional<status> now = try_wait(group, s_, token);
            said = said ? said : now;
            if (group.ballot(!said && !this->stopped()) == 0) {
                break;
            }
            port::pause();
        }
        const status last = wait_each(group, s_, move(token));
        return said ? *said : last;
    }

    WARPBELL_D void each_looks(const lanes& group, bool mine, u32 version) {
        const optional<extent> where = mine_if(mine);
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            this->fill(own(), end(), 1, phase == 0 ? version : this->zeros);
            found_.told(4, look(group, phase == 0 ? submit_each(group, s_, command::write(where, mine_at()))
                                                  : submit_each(group, s_, command::read(where, mine_at()))));
        }
        found_.saw(5, this->holds(own(), end(), 1, mine ? version : this->zeros));
    }

    template <class Group> WARPBELL_D void group_waits(const Group& group, u32 version) {
        const extent where = this->blocks(0, together);
        const dma_span all = this->data(0, together);
        this->fill(group, 0, together, version);
        found_.told(6, write(group, s_, where, all));
        this->fill(group, 0, together, this->zeros);
        found_.told(7, read(group, s_, where, all));
        found_.saw(8, this->holds(group, 0, together, version));
    }

    WARPBELL_D void group_returns(const lanes& group, u32 version) {
        const extent where = this->blocks(0, together);
        const dma_span all = this->data(0, together);
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            this->fill(group, 0, together, phase == 0 ? version : this->zeros);
            io_token token = phase == 0 ? submit(group, s_, command::write(where, all))
                                        : submit(group, s_, command::read(where, all));
            found_.told(9, wait(group, s_, move(token)));
        }
        found_.saw(10, this->holds(group, 0, together, version));
    }

    WARPBELL_D void alone(u32 version) {
        const extent where = *mine_if(true);
        const dma_span data = mine_at();
        this->fill(own(), end(), 1, version);
        found_.told(11, write(s_, where, data));
        this->fill(own(), end(), 1, this->zeros);
        found_.told(12, read(s_, where, data));
        found_.saw(13, this->holds(own(), end(), 1, version));
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            this->fill(own(), end(), 1, phase == 0 ? version + 1u : this->zeros);
            found_.told(14, wait(s_, phase == 0 ? submit(s_, command::write(where, data))
                                                : submit(s_, command::read(where, data))));
        }
        found_.saw(15, this->holds(own(), end(), 1, version + 1u));
        found_.told(16, flush(s_));
    }

    // As groups of CUDA's.
    WARPBELL_D void cooperate(bool mine, u32 version) {
        if (Mode == sharing::exclusive) {
            each_waits(cooperative_tile<WARPBELL_WARP_LANES>(), mine, version);
            group_waits(cooperative_tile<WARPBELL_WARP_LANES>(), version + 1u);
            return;
        }
        const auto part = cooperative_part(mine);
        each_waits(cooperative_tile<8>(), mine, version);
        this_warp().sync();
        if (port::lane() / 8u == version / 8u % 4u) { // one tile of four
            group_waits(cooperative_tile<8>(), version + 1u);
        }
        this_warp().sync();
        if (mine) {
            group_waits(part, version + 1u);
        }
    }

    const u32 lane_ = port::lane();
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
