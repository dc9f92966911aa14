// Kernel `check_stream`: tiles of stream.cuh, with contents that are looked at.
#include "check/stream.cuh"

WARPBELL_KERNEL(check_stream, warpbell_check_args) { kernels::run_check<kernels::stream_check>(args); }
