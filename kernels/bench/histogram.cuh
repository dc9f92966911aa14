// Latency histograms as abi.h describes them.
#pragma once

#include "common.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// Latency in nanoseconds to histogram bucket.
WARPBELL_D u32 bucket_of(u64 ns) {
    if (ns < 32) {
        return static_cast<u32>(ns);
    }
    const u32 m = port::highest(ns);
    const u32 bucket = (m - 4u) * 32u + (static_cast<u32>(ns >> (m - 5u)) & 31u);
    return bucket < WARPBELL_HISTOGRAM_BUCKETS ? bucket : WARPBELL_HISTOGRAM_BUCKETS - 1u;
}

// Counts one I/O of this lane; `histograms` as in the arguments of `bench`.
WARPBELL_D void record_latency(u64 histograms, u64 ns, bool wrote) {
    if (histograms == 0) {
        return;
    }
    const u64 row =
        (static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane()) * 2u + (wrote ? 1u : 0u);
    ++reinterpret_cast<u32*>(histograms)[row * WARPBELL_HISTOGRAM_BUCKETS + bucket_of(ns)];
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
