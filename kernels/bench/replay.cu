// Kernel `replay`.
#include "replay.cuh"

WARPBELL_KERNEL(replay, warpbell_replay_args) { kernels::run_replay(args); }
