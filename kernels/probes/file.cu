// Kernels `probe_file_*`: one call of file.cuh each, by one warp.
#include "probe.cuh"

namespace probes {

struct file_args {
    warpbell_namespace_ref ns;
    warpbell_file_ref file;
    warpbell_buffer_ref buffer;
    u64 offset; // of the file
    u32* out;
    u32 warp;
};

template <sharing Mode> WARPBELL_D void attach(const file_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, ssd.queue().free_ids());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void find(const file_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    const file_place place = wb::file(args.file).find((args.offset >> args.file.block_shift) + port::lane());
    store_result(args.out, place.lba ^ place.blocks ^ (place.hole ? ~0ull : 0));
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void read_each(const file_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    const u64 mine = static_cast<u64>(port::lane()) << 12;
    const dma_span to = dma_span(args.buffer).subspan(mine, 4096);
    store_result(
        args.out,
        wb::read_each(this_warp(), ssd, wb::file(args.file), optional<u64>(args.offset + mine), to).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void read(const file_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    const dma_span to(args.buffer);
    store_result(args.out, wb::read(this_warp(), ssd, wb::file(args.file), args.offset, to).bits);
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(file, attach)
WARPBELL_PROBE(file, find)
WARPBELL_PROBE(file, read_each)
WARPBELL_PROBE(file, read)
