// Kernels `probe_volume_*`: one call of volume.cuh each, by one warp, on a volume of up to four SSDs. Whether
// it is striped, replicated or concatenated is known at run time: each probe has the code for all of them.
#include "probe.cuh"

#include <warpbell/volume.cuh>

namespace probes {

constexpr u32 members = 4;

struct volume_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
    u64 start; // block address
    u32* out;
    u32 blocks; // for each lane
    u32 warp;
};

WARPBELL_D optional<extent> of_lane(const volume_args& args) {
    return extent{lba(args.start + port::lane() * args.blocks), args.blocks};
}

template <sharing Mode> WARPBELL_D void attach(const volume_args& args) {
    wb::volume<Mode, members> v(this_warp(), args.volume, args.warp);
    store_result(args.out, v.present());
    v.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void read_each(const volume_args& args) {
    const warpbell_volume_buffer_ref buffer = args.buffer;
    wb::volume<Mode, members> v(this_warp(), args.volume, args.warp);
    store_result(args.out, wb::read_each(this_warp(), v, of_lane(args), volume_span(buffer)).bits);
    v.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_each(const volume_args& args) {
    const warpbell_volume_buffer_ref buffer = args.buffer;
    wb::volume<Mode, members> v(this_warp(), args.volume, args.warp);
    store_result(args.out, wb::write_each(this_warp(), v, of_lane(args), volume_span(buffer)).bits);
    v.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void flush(const volume_args& args) {
    wb::volume<Mode, members> v(this_warp(), args.volume, args.warp);
    store_result(args.out, wb::flush(this_warp(), v).bits);
    v.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(volume, attach)
WARPBELL_PROBE(volume, read_each)
WARPBELL_PROBE(volume, write_each)
WARPBELL_PROBE(volume, flush)
