// Kernels `probe_coalesced_*`: what submission costs where whole warps write whole entries.
#define WARPBELL_COALESCED_ENTRIES 1
#include "queue_calls.cuh"

namespace probes {
using coalesced_args = queue_args;
}

WARPBELL_PROBE(coalesced, attach)
WARPBELL_PROBE(coalesced, try_submit)
