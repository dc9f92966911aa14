// Kernel `bench`.
#include "bench.cuh"

WARPBELL_KERNEL(bench, warpbell_bench_args) { kernels::run_bench(args); }
