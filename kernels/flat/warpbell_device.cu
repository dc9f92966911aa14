// The flat layer as nvcc compiles it for lib/device of a release (scripts/lib/build-flat).
#include <warpbell/flat.cuh>
