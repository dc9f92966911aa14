// Kernels `probe_lab_*`: one I/O of each lane by each protocol of the laboratory, from submission to answer;
// and the warp that looks at completions where a protocol has one. In place of a sharing mode stands the
// protocol.
#include "probe.cuh"

#include <lab/lockstep.cuh>
#include <lab/marks.cuh>
#include <lab/service.cuh>
#include <lab/turns.cuh>

namespace probes {

struct lab_args {
    warpbell_lab_args lab;
    sqe entry; // as it is submitted
    u64 start; // result of `attach`
    u32* out;
};

// What an I/O costs each protocol alike: a session, its place, the words to agree by.
template <class Protocol> WARPBELL_D void attach(const lab_args& args) {
    const kernels::lab_place place(args.lab);
    const kernels::lab_board board(args.lab, place.queue);
    session<sharing::shared> ssd(this_warp(), args.lab.bench.ns, place.slot);
    Protocol protocol(args.lab, place, board, ssd);
    store_result(args.out, protocol.go_on(true) ? args.start : 0);
    ssd.detach(this_warp());
}

// As lab/loop.cuh calls it, with nothing to draw, to check or to measure.
template <class Protocol> WARPBELL_D void io(const lab_args& args) {
    const kernels::lab_place place(args.lab);
    const kernels::lab_board board(args.lab, place.queue);
    session<sharing::shared> ssd(this_warp(), args.lab.bench.ns, place.slot);
    Protocol protocol(args.lab, place, board, ssd);
    bool wants = place.works(), busy = false;
    status said;
    while (protocol.go_on(busy || wants)) {
        const bool want = !busy && wants;
        if (protocol.takes(want, busy)) {
            protocol.submit(ssd, want, args.entry, args.start);
            busy = busy || want;
        }
        if (const optional<status> done = protocol.poll(ssd, busy)) {
            said = *done;
            busy = wants = false;
        }
        wants = !protocol.agree(!wants);
    }
    store_result(args.out, said.bits);
    ssd.detach(this_warp());
}

// The warp that serves a queue; it has no session to attach.
template <class Server> WARPBELL_D void serve(const lab_args& args) {
    const kernels::lab_board board(args.lab, 0);
    Server(board, args.lab.warps).run();
    store_result(args.out, args.start);
}

} // namespace probes

#define WARPBELL_LAB_PROBE(protocol, type)                                                                   \
    WARPBELL_PROBE_WITH(lab, attach, protocol, type)                                                         \
    WARPBELL_PROBE_WITH(lab, io, protocol, type)

WARPBELL_LAB_PROBE(turns, kernels::turns_protocol<warpbell::lanes>)
WARPBELL_LAB_PROBE(alone, kernels::turns_protocol<warpbell::this_thread_t>)
WARPBELL_LAB_PROBE(marks, kernels::marks_protocol<kernels::cid_pool::shared>)
WARPBELL_LAB_PROBE(own, kernels::marks_protocol<kernels::cid_pool::partitioned>)
WARPBELL_LAB_PROBE(lockstep, kernels::lockstep_protocol)
WARPBELL_LAB_PROBE(service, kernels::service_protocol)
WARPBELL_PROBE_WITH(lab, serve, server, kernels::lab_server)
