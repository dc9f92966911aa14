/* Block by block, one warp each: every lane reads a block of the SSD, and its status is an answer. A kernel
 * of CUDA C that links the flat layer, and includes no C++ of the device library. docs/flat-layer.md has the
 * command. */
#include <warpbell/warpbell_device.h>

struct flat_kernel_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data; /* a block for each thread */
    uint64_t answers;         /* uint32_t for each thread */
};

/* What a launch by Warpbell compares; WARPBELL_KERNEL of the C++ headers writes the same. */
extern "C" __device__ uint32_t warpbell_kernel_flat_kernel[2] = {WARPBELL_ABI_VERSION,
                                                                 sizeof(flat_kernel_args)};

extern "C" __global__ void __launch_bounds__(WARPBELL_BLOCK_THREADS_MAX)
    flat_kernel(const __grid_constant__ flat_kernel_args args) {
    warpbell_session session;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t status = warpbell_attach_warp(&session, &args.ns, thread / WARPBELL_WARP_LANES);
    if (warpbell_status_ok(status)) {
        const uint64_t bytes = 1u << args.ns.block_shift;
        status = warpbell_read_each(&session, thread, 1, &args.data, thread * bytes, 0);
    }
    warpbell_detach(&session); /* of a lost queue, too; where nothing was attached it is refused */
    reinterpret_cast<uint32_t*>(args.answers)[thread] = status;
}
