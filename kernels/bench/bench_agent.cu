// Kernel `bench_agent`: what `bench` does, by warps that have no queue, through agents.
#include "bench_agent.cuh"

WARPBELL_KERNEL(bench_agent, warpbell_bench_agent_args) { kernels::run_bench_agent(args); }
