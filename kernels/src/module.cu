// The kernels of this module, for the CPU target's launcher. Nothing for nvcc: there a kernel is found
// by its name.
#include <warpbell/abi.h>

#if !defined(__CUDACC__)
#include <simt/module.h>

// K(kernel, its argument struct)
#define WARPBELL_KERNELS(K)                                                                                  \
    K(bench, warpbell_bench_args)                                                                            \
    K(verify, warpbell_verify_args)                                                                          \
    K(digest, warpbell_digest_args)                                                                          \
    K(queue_test, warpbell_queue_test_args)                                                                  \
    K(probe_empty_shared, warpbell_probe_args)                                                               \
    K(probe_submit_shared, warpbell_probe_args)                                                              \
    K(probe_poll_shared, warpbell_probe_args)                                                                \
    K(probe_reap_shared, warpbell_probe_args)                                                                \
    K(probe_empty_exclusive, warpbell_probe_args)                                                            \
    K(probe_submit_exclusive, warpbell_probe_args)                                                           \
    K(probe_poll_exclusive, warpbell_probe_args)                                                             \
    K(probe_reap_exclusive, warpbell_probe_args)

#define WARPBELL_DECLARE(kernel, args) extern "C" void kernel(const void* args_pointer);
WARPBELL_KERNELS(WARPBELL_DECLARE)

#define WARPBELL_ENTRY(kernel, args) {#kernel, kernel, sizeof(args)},
static const struct wb_simt_kernel_entry entries[] = {WARPBELL_KERNELS(WARPBELL_ENTRY)};

WB_SIMT_EXPORT(entries)
#endif
