// Kernel `bench_traced`: `bench` over queues that write a trace (trace.cuh).
#define WARPBELL_TRACE 1
#include "bench.cuh"

WARPBELL_KERNEL(bench_traced, warpbell_bench_args) { kernels::run_bench(args); }
