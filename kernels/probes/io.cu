// Kernels `probe_io_*`: one call of io.cuh each, by one warp.
#include "io_args.cuh"

namespace probes {

template <sharing Mode> WARPBELL_D void read(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::read(this_warp(), ssd, whole(args), data(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::submit(this_warp(), ssd, wb::command::read(whole(args), data(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void read_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::read_each(this_warp(), ssd, each(args), data_of_lane(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out,
                 wb::submit_each(this_warp(), ssd, wb::command::read(each(args), data_of_lane(args))).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write(this_warp(), ssd, whole(args), data(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void write_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::write_each(this_warp(), ssd, each(args), data_of_lane(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void flush(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::flush(this_warp(), ssd).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void submit_flush(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::submit(this_warp(), ssd, wb::command::flush()).bits());
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void wait(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::wait(this_warp(), ssd, io_token::from_bits(args.token)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void wait_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::wait_each(this_warp(), ssd, io_token::from_bits(args.token)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void try_wait(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_token token = io_token::from_bits(args.token);
    const optional<status> done = wb::try_wait(this_warp(), ssd, token);
    store_result(args.out, done ? done->bits : ~0u);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void wait_any(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    io_token tokens[2] = {io_token::from_bits(args.token), io_token::from_bits(args.token + 1u)};
    const any_status first = wb::wait_any(this_warp(), ssd, tokens);
    store_result(args.out, first.result.bits ^ first.index);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void cancel_each(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::cancel_each(this_warp(), ssd, io_token::from_bits(args.token)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void deallocate(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out, wb::deallocate(this_warp(), ssd, each(args), data(args)).bits);
    ssd.detach(this_warp());
}

template <sharing Mode> WARPBELL_D void run_coalesced(const io_args& args) {
    session<Mode> ssd(this_warp(), args.ns, args.warp);
    store_result(args.out,
                 wb::run_coalesced(this_warp(), ssd, wb::command::read(each(args), data_of_lane(args))).bits);
    ssd.detach(this_warp());
}

} // namespace probes

WARPBELL_PROBE(io, attach)
WARPBELL_PROBE(io, read)
WARPBELL_PROBE(io, submit)
WARPBELL_PROBE(io, read_each)
WARPBELL_PROBE(io, submit_each)
WARPBELL_PROBE(io, write)
WARPBELL_PROBE(io, write_each)
WARPBELL_PROBE(io, flush)
WARPBELL_PROBE(io, submit_flush)
WARPBELL_PROBE(io, wait)
WARPBELL_PROBE(io, wait_each)
WARPBELL_PROBE(io, try_wait)
WARPBELL_PROBE(io, wait_any)
WARPBELL_PROBE(io, cancel_each)
WARPBELL_PROBE(io, deallocate)
WARPBELL_PROBE(io, run_coalesced)
