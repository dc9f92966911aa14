// Kernels `probe_commands_*`: one command each that io.cuh has no verb for, and deallocate.cuh, by one warp.
#include "io_args.cuh"

namespace probes {

using commands_args = io_args;

template <sharing Mode> WARPBELL_D void compare(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::run(this_warp(), ssd, wb::command::compare(whole(args), data(args))).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_compare(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out,
                 wb::submit(this_warp(), ssd, wb::command::compare(whole(args), data(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void compare_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out,
                 wb::run_each(this_warp(), ssd, wb::command::compare(each(args), data_of_lane(args))).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_each_compare(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(
        args.out,
        wb::submit_each(this_warp(), ssd, wb::command::compare(each(args), data_of_lane(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::run(this_warp(), ssd, wb::command::write_zeroes(whole(args))).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_write_zeroes(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::submit(this_warp(), ssd, wb::command::write_zeroes(whole(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_zeroes_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::run_each(this_warp(), ssd, wb::command::write_zeroes(each(args))).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_each_write_zeroes(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::submit_each(this_warp(), ssd, wb::command::write_zeroes(each(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(
        args.out,
        wb::run(this_warp(), ssd, wb::command::write(whole(args), data(args), wb::command::fua)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_write_fua(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(
        args.out,
        wb::submit(this_warp(), ssd, wb::command::write(whole(args), data(args), wb::command::fua)).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_fua_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::run_each(this_warp(), ssd,
                                        wb::command::write(each(args), data_of_lane(args), wb::command::fua))
                               .bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_each_write_fua(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out,
                 wb::submit_each(this_warp(), ssd,
                                 wb::command::write(each(args), data_of_lane(args), wb::command::fua))
                     .bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_deallocate(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::submit_deallocate(this_warp(), ssd, each(args), data(args)).bits());
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(commands, attach)
WARPBELL_PROBE(commands, compare)
WARPBELL_PROBE(commands, submit_compare)
WARPBELL_PROBE(commands, compare_each)
WARPBELL_PROBE(commands, submit_each_compare)
WARPBELL_PROBE(commands, write_zeroes)
WARPBELL_PROBE(commands, submit_write_zeroes)
WARPBELL_PROBE(commands, write_zeroes_each)
WARPBELL_PROBE(commands, submit_each_write_zeroes)
WARPBELL_PROBE(commands, write_fua)
WARPBELL_PROBE(commands, submit_write_fua)
WARPBELL_PROBE(commands, write_fua_each)
WARPBELL_PROBE(commands, submit_each_write_fua)
WARPBELL_PROBE(commands, submit_deallocate)
