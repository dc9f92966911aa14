// Kernels `probe_queue_*`: one call of queue.cuh each, by one warp.
#include "queue_calls.cuh"

WARPBELL_PROBE(queue, attach)
WARPBELL_PROBE(queue, try_submit)
WARPBELL_PROBE(queue, submit)
WARPBELL_PROBE(queue, try_wait)
WARPBELL_PROBE(queue, wait)
WARPBELL_PROBE(queue, command)
WARPBELL_PROBE(queue, reap)
WARPBELL_PROBE(queue, abandon)
