// Kernels `probe_commands_*`: one call of commands.cuh each, by one warp.
#include "io_args.cuh"

namespace probes {

using commands_args = io_args;

template <sharing Mode> WARPBELL_D void compare(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::compare(this_warp(), ssd, whole(args), data(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void compare_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::compare_async(this_warp(), ssd, whole(args), data(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void compare_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::compare_each(this_warp(), ssd, each(args), data_of_lane(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void compare_each_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::compare_each_async(this_warp(), ssd, each(args), data_of_lane(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_zeroes(this_warp(), ssd, whole(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_zeroes_async(this_warp(), ssd, whole(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_zeroes_each(this_warp(), ssd, each(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes_each_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_zeroes_each_async(this_warp(), ssd, each(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_fua(this_warp(), ssd, whole(args), data(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_fua_async(this_warp(), ssd, whole(args), data(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_fua_each(this_warp(), ssd, each(args), data_of_lane(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua_each_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_fua_each_async(this_warp(), ssd, each(args), data_of_lane(args)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void deallocate_async(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::deallocate_async(this_warp(), ssd, each(args), data(args)).bits());
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(commands, attach)
WARPBELL_PROBE(commands, compare)
WARPBELL_PROBE(commands, compare_async)
WARPBELL_PROBE(commands, compare_each)
WARPBELL_PROBE(commands, compare_each_async)
WARPBELL_PROBE(commands, write_zeroes)
WARPBELL_PROBE(commands, write_zeroes_async)
WARPBELL_PROBE(commands, write_zeroes_each)
WARPBELL_PROBE(commands, write_zeroes_each_async)
WARPBELL_PROBE(commands, write_fua)
WARPBELL_PROBE(commands, write_fua_async)
WARPBELL_PROBE(commands, write_fua_each)
WARPBELL_PROBE(commands, write_fua_each_async)
WARPBELL_PROBE(commands, deallocate_async)
