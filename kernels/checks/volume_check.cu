// Kernel `volume_check`: writes every unit of a volume with contents of its own, or reads and compares all.
#include "abi_check.h"
#include "common.cuh"

#include <warpbell/abi_volume.h>

namespace kernels {

template <sharing Mode> class volume_checker {
  public:
    WARPBELL_D explicit volume_checker(const warpbell_volume_check_args& args)
        : args_(args), volume_(this_warp(), args.volume, warp_number()),
          bytes_(static_cast<u64>(args.unit_blocks) * volume_.block_bytes()) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        const u64 stride = static_cast<u64>(warps_of_launch()) * WARPBELL_WARP_LANES;
        u64 first = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES;
        while (first < args_.units && warp.ballot(port::load_relaxed_sys(stop()) != 0) == 0) {
            step(warp, first + port::lane());
            first += stride;
        }
        const status flushed = args_.writes != 0 ? flush(warp, volume_) : status();
        if (!flushed.ok()) {
            failed_ += warp.is_leader() ? 1u : 0u;
            status_ = flushed;
        }
        report(warp);
        volume_.detach(warp);
    }

  private:
    WARPBELL_D const u32* stop() const { return reinterpret_cast<const u32*>(args_.stop); }
    WARPBELL_D u64 content(u64 unit, u64 word) const {
        return random_number(args_.seed ^ unit * golden, word);
    }

    WARPBELL_D void step(const this_warp_t& warp, u64 unit) {
        const u64 place = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
        const volume_span data = volume_span(args_.buffer).subspan(place * bytes_, bytes_);
        u64* words = data.template data<u64>();
        optional<extent> where;
        // A buffer that some SSD may still use is not used again.
        if (unit < args_.units && !buffer_lost_) {
            where = extent{lba(unit * args_.unit_blocks), args_.unit_blocks};
            for (u64 i = 0; i < bytes_ / 8u; ++i) {
                words[i] = args_.writes != 0 ? content(unit, i) : 0;
            }
        }
        const status said = args_.writes != 0 ? write_each(warp, volume_, where, data)
                                              : read_each(warp, volume_, where, data);
        if (unit >= args_.units) {
            return;
        }
        if (!where || !said.ok()) {
            buffer_lost_ = buffer_lost_ || said.buffer_in_use();
            ++failed_;
            status_ = where ? said : status_;
            return;
        }
        ++units_;
        bool right = true;
        for (u64 i = 0; args_.writes == 0 && i < bytes_ / 8u; ++i) {
            right = right && words[i] == content(unit, i);
        }
        wrong_ += right ? 0u : 1u;
    }

    WARPBELL_D void report(const this_warp_t& warp) const {
        warpbell_volume_check_result result = {};
        const u32 bad = warp.ballot(!status_.ok());
        result.units = sum(warp, units_);
        result.wrong = sum(warp, wrong_);
        result.failed = sum(warp, failed_);
        result.status = warp.from(bad != 0 ? port::lowest(bad) : 0, status_.bits);
        if (warp.is_leader()) {
            reinterpret_cast<warpbell_volume_check_result*>(args_.results)[warp_number()] = result;
        }
    }

    const warpbell_volume_check_args& args_;
    volume<Mode, 4> volume_; // up to four SSDs
    const u64 bytes_;
    u64 units_ = 0, wrong_ = 0, failed_ = 0;
    status status_;
    bool buffer_lost_ = false;
};

} // namespace kernels

WARPBELL_KERNEL(volume_check, warpbell_volume_check_args) {
    using namespace kernels;
    const auto* first = reinterpret_cast<const warpbell_volume_member*>(args.volume.members);
    if (first->ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        volume_checker<sharing::exclusive>(args).run();
    } else {
        volume_checker<sharing::shared>(args).run();
    }
}
