// What the probes share. A probe is a kernel that attaches, makes one library call, stores a result and
// detaches; the probe `attach` makes no call.
#pragma once

#include <warpbell/warpbell.cuh>

namespace probes {

using namespace wb;

WARPBELL_D void store_result(u32* out, u64 value) {
    out[port::lane()] = static_cast<u32>(value) ^ static_cast<u32>(value >> 32);
}

} // namespace probes

// Registers that the compiler may use. Without a bound it takes what it likes; with one it shows what is
// enough.
#if defined(WARPBELL_PROBE_REGISTERS)
#define WARPBELL_PROBE_BOUND __maxnreg__(WARPBELL_PROBE_REGISTERS)
#else
#define WARPBELL_PROBE_BOUND __launch_bounds__(WARPBELL_BLOCK_THREADS_MAX, 1)
#endif

#define WARPBELL_PROBE_WITH(layer, call, mode, type)                                                         \
    extern "C" __global__ void WARPBELL_PROBE_BOUND probe_##layer##_##call##_##mode(                         \
        const __grid_constant__ probes::layer##_args args) {                                                 \
        probes::call<type>(args);                                                                            \
    }

#define WARPBELL_PROBE(layer, call)                                                                          \
    WARPBELL_PROBE_WITH(layer, call, shared, warpbell::sharing::shared)                                      \
    WARPBELL_PROBE_WITH(layer, call, exclusive, warpbell::sharing::exclusive)
