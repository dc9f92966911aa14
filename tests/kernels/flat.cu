// Kernel `flat_test`: scenes in which every call of the flat layer is made, or, with `flat` 0, the call of
// the C++ API that it stands for. A lane notes each status, and the first word of its data behind each call
// that may have brought some. What the two note must be the same.
#include "flat_misuse.cuh"
#include "flat_scenes.cuh"

namespace kernels {

template <class Group, sharing Mode> WARPBELL_D void play(const flat_args& args) {
    if (args.flat != 0) {
        player<flat_calls<Group>, Group>(args).run();
    } else {
        player<cpp_calls<Group, Mode>, Group>(args).run();
    }
}

template <sharing Mode> WARPBELL_D void play_as(const flat_args& args) {
    if (args.scene == static_cast<u32>(scene::misuse)) {
        misuse(args).run();
    } else if (args.scene == static_cast<u32>(scene::pinned)) {
        // What a lane leaves that forgets to release a page.
        port::add_relaxed_gpu(&reinterpret_cast<warpbell_cache_line*>(args.cache.lines)->state, u64(1));
    } else if (args.by_thread == 0) {
        play<this_warp_t, Mode>(args);
    } else if (Mode == sharing::shared || port::lane() == 0) {
        play<this_thread_t, Mode>(args);
    }
}

} // namespace kernels

WARPBELL_KERNEL(flat_test, flat_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        play_as<sharing::exclusive>(args);
    } else {
        play_as<sharing::shared>(args);
    }
}

WARPBELL_KERNEL(flat_status_test, flat_args) {
    using namespace warpbell;
    const uint32_t bits = port::thread_index() + port::block_index() * port::block_threads();
    const status said = status::from_bits(bits);
    const uint32_t same = warpbell_status_ok(bits) == said.ok() &&
                          warpbell_status_differs(bits) == said.differs() &&
                          warpbell_status_retryable(bits) == said.retryable() &&
                          warpbell_status_buffer_in_use(bits) == said.buffer_in_use() &&
                          warpbell_status_buffer_in_use(WARPBELL_PENDING) == 1;
    port::add_relaxed_gpu(reinterpret_cast<uint64_t*>(args.notes), uint64_t(same));
}
