// Kernel `verify`: writes a pattern to every unit of a range once, or reads all units and checks them.
#include "common.cuh"

namespace kernels {

template <sharing Mode> class verify_warp {
  public:
    WARPBELL_D explicit verify_warp(const warpbell_verify_args& args)
        : args_(args), session_(this_warp(), args.ns, warp_number()),
          unit_bytes_(args.blocks_per_io << args.ns.block_shift) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        const u64 start_ns = port::clock_ns();
        const u64 stride = static_cast<u64>(warps_of_launch()) * WARPBELL_WARP_LANES;
        for (u64 first = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES; first < args_.units;
             first += stride) {
            step(warp, first + port::lane());
            if (warp.ballot(stop_asked(args_.mailbox)) != 0) {
                break;
            }
        }
        write_result(warp, args_.results, tally_, unit_bytes_, warp_number() % args_.ns.queue_count,
                     start_ns);
        session_.detach(warp);
    }

  private:
    WARPBELL_D void step(const this_warp_t& warp, u64 unit) {
        const u64 first = args_.first_lba + unit * args_.blocks_per_io;
        const unit_pattern pattern(reinterpret_cast<const u32*>(args_.crc_tables), args_.seed, first,
                                   unit_bytes_);
        const u64 number = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
        const dma_span data = dma_span(args_.buffer).subspan(number * unit_bytes_, unit_bytes_);
        const bool writes = args_.mode == WARPBELL_VERIFY_WRITE;
        optional<extent> where;
        if (unit < args_.units && !buffer_lost_) {
            where = extent{lba(first), args_.blocks_per_io};
        }
        if (where && writes) {
            pattern.fill(data.template data<u64>());
        }
        const status s = writes ? write_each(warp, session_, where, data, args_.deadline_ns)
                                : read_each(warp, session_, where, data, args_.deadline_ns);
        if (!where) {
            return;
        }
        buffer_lost_ = s.buffer_in_use();
        if (!s.ok()) {
            tally_.error(first, s);
            report_error(args_.mailbox, first, s);
            return;
        }
        ++(writes ? tally_.writes : tally_.reads);
        const u64* found = data.template data<const u64>();
        if (!writes && !pattern.right(found)) {
            tally_.mismatch(pattern.compare(found, session_.block_bytes()));
        }
    }

    const warpbell_verify_args& args_;
    session<Mode> session_;
    const u32 unit_bytes_;
    bool buffer_lost_ = false; // after a timeout the controller may still write to this lane's buffer
    tally tally_;
};

} // namespace kernels

WARPBELL_KERNEL(verify, warpbell_verify_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        verify_warp<sharing::exclusive>(args).run();
    } else {
        verify_warp<sharing::shared>(args).run();
    }
}
