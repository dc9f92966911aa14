// Kernel `bench_batch`: what `bench` does, by blocks of threads that send their I/Os in batches.
#include "bench_batch.cuh"

WARPBELL_KERNEL(bench_batch, warpbell_bench_batch_args) { kernels::run_bench_batch(args); }
