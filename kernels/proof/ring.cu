// Kernel `ring_doorbell`: one store to a doorbell. The host proves with it that stores of kernels arrive.
#include <warpbell/port.cuh>

namespace kernels {

// crates/warpbell/src/launch/ring.rs has the same.
struct ring_args {
    warpbell::port::u64 doorbell;
    warpbell::port::u32 value;
    warpbell::port::u32 pad0;
};
static_assert(sizeof(ring_args) == 16, "no hidden padding");

} // namespace kernels

WARPBELL_KERNEL(ring_doorbell, kernels::ring_args) {
    using namespace warpbell;
    // The host wrote the command before the launch, which orders it before this.
    if (port::thread_index() == 0) {
        port::store_sq_doorbell(reinterpret_cast<port::u32*>(args.doorbell), args.value);
    }
}
