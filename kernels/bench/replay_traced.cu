// Kernel `replay_traced`: `replay` over queues that write a trace (trace.cuh).
#define WARPBELL_TRACE 1
#include "replay.cuh"

WARPBELL_KERNEL(replay_traced, warpbell_replay_args) { kernels::run_replay(args); }
