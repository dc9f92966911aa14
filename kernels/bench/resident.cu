// Kernel `resident`: the limit test of the device library. Some blocks of the launch are an NVMe controller
// that answers at once, or after a set delay, and moves no data; the others are its clients.
#include "resident_client.cuh"
#include "resident_controller.cuh"

namespace kernels {

template <sharing Mode>
WARPBELL_D void keep_outstanding(const warpbell_resident_args& args, const client_place& place) {
    if (port::lane() < place.lanes()) {
        const lanes group(0xffffffffu >> (WARPBELL_WARP_LANES - place.lanes()));
        throughput_client<Mode>(args, place, group).run();
    }
    this_warp().sync();
}

template <sharing Mode>
WARPBELL_D void wait_together(const warpbell_resident_args& args, const client_place& place) {
    const this_warp_t warp;
    waiting_client<Mode, this_warp_t> client(args, place, warp);
    client.run();
    client.end(warp);
}

WARPBELL_D void wait_alone(const warpbell_resident_args& args, const client_place& place) {
    const this_thread_t thread;
    waiting_client<sharing::shared, this_thread_t> client(args, place, thread);
    client.run();
    this_warp().sync();
    client.end(this_warp());
}

WARPBELL_D void be_client(const warpbell_resident_args& args, const client_place& place) {
    const bool exclusive = args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE;
    switch (args.mode) {
    case WARPBELL_RESIDENT_THROUGHPUT:
        if (exclusive) {
            keep_outstanding<sharing::exclusive>(args, place);
        } else {
            keep_outstanding<sharing::shared>(args, place);
        }
        break;
    case WARPBELL_RESIDENT_EACH:
        if (exclusive) {
            wait_together<sharing::exclusive>(args, place);
        } else {
            wait_together<sharing::shared>(args, place);
        }
        break;
    default:
        wait_alone(args, place);
        break;
    }
    if (port::lane() == 0) {
        leave(args);
    }
}

} // namespace kernels

WARPBELL_KERNEL(resident, warpbell_resident_args) {
    using namespace kernels;
    if (port::thread_index() == 0) {
        reinterpret_cast<u32*>(args.places)[port::block_index()] = port::multiprocessor();
    }
    const u32 controllers = args.controller_blocks * warps_per_block(), warp = warp_number();
    if (warp < controllers) {
        controller_warp(args, warp, controllers).run();
    } else if (warp - controllers < args.clients) {
        be_client(args, client_place(args, warp - controllers));
    }
}
