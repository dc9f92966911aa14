// Kernels `lab_*`: the same I/Os by different protocols over the same rings (docs/protocols.md).
#include "lab/lockstep.cuh"
#include "lab/loop.cuh"
#include "lab/marks.cuh"
#include "lab/service.cuh"
#include "lab/turns.cuh"

WARPBELL_KERNEL(lab_turns, warpbell_lab_args) {
    using namespace kernels;
    run_lab<turns_protocol<lanes>>(args, false);
}
WARPBELL_KERNEL(lab_turns_alone, warpbell_lab_args) {
    using namespace kernels;
    run_lab<turns_protocol<this_thread_t>>(args, false);
}
WARPBELL_KERNEL(lab_marks, warpbell_lab_args) {
    using namespace kernels;
    run_lab<marks_protocol<cid_pool::shared>>(args, false);
}
WARPBELL_KERNEL(lab_marks_own, warpbell_lab_args) {
    using namespace kernels;
    run_lab<marks_protocol<cid_pool::partitioned>>(args, false);
}
WARPBELL_KERNEL(lab_lockstep, warpbell_lab_args) {
    kernels::run_lab<kernels::lockstep_protocol>(args, false);
}

// Warps beyond those that submit serve, one for each queue.
WARPBELL_KERNEL(lab_service, warpbell_lab_args) {
    using namespace kernels;
    if (warp_number() < args.warps) {
        run_lab<service_protocol>(args, true);
        return;
    }
    const u32 queue = warp_number() - args.warps;
    const u64 start_ns = port::clock_ns();
    const lab_board board(args, queue);
    (void)board.open(false);
    this_warp().sync();
    lab_server(board, args.warps / args.bench.ns.queue_count).run();
    write_result(this_warp(), args.bench.results, tally(), 0, queue, start_ns);
}
