// Kernels `bench_array_*`: words of an array over a page cache with each policy, and of plain memory.
#define WARPBELL_MIN_BLOCKS 2
#include "bench_array.cuh"

WARPBELL_KERNEL(bench_array_clock, warpbell_bench_array_args) {
    kernels::run_bench_array<warpbell::clock_sweep>(args);
}
WARPBELL_KERNEL(bench_array_fifo, warpbell_bench_array_args) {
    kernels::run_bench_array<warpbell::fifo>(args);
}
WARPBELL_KERNEL(bench_array_lru, warpbell_bench_array_args) {
    kernels::run_bench_array<warpbell::sampled_lru<>>(args);
}
WARPBELL_KERNEL(bench_array_plain, warpbell_bench_array_args) { kernels::run_bench_plain(args); }
WARPBELL_KERNEL(bench_array_check, warpbell_bench_array_args) { kernels::run_bench_array_check(args); }
WARPBELL_KERNEL(bench_array_flush, warpbell_bench_array_args) { kernels::run_bench_array_flush(args); }
