// Kernels of streams.c.
#include <warpbell/warpbell.cuh>
using namespace warpbell;

struct step_args {
    uint64_t flag, words;
};

// Waits until the flag is set, if there is one; then each lane's word is twice what it was, and one more.
WARPBELL_KERNEL(step, step_args) {
    while (args.flag != 0 && port::load_relaxed_sys(reinterpret_cast<uint32_t*>(args.flag)) == 0) {
        port::pause();
    }
    uint64_t* word = reinterpret_cast<uint64_t*>(args.words) + port::lane();
    *word = 2 * *word + 1;
}
