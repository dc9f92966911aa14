// Cooperative groups: CUDA's where nvcc compiles; on the CPU target, and under NVRTC, which has no header of
// them, types with as much of their interface as the library looks at.
#pragma once

#include "warp.cuh"

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cooperative_groups.h>
#endif

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

template <u32 Size> WARPBELL_D auto cooperative_tile() {
    namespace cg = cooperative_groups;
    return cg::tiled_partition<Size>(cg::this_thread_block());
}
WARPBELL_D auto cooperative_block() { return cooperative_groups::this_thread_block(); }
// The lanes of the warp with one answer. All of them call.
WARPBELL_D auto cooperative_part(bool member) {
    return cooperative_groups::binary_partition(cooperative_tile<WARPBELL_WARP_LANES>(), member);
}

#else

template <u32 Size> struct cooperative_tile_t {
    WARPBELL_D static constexpr u32 num_threads() { return Size; }
    WARPBELL_D static u32 size() { return Size; }
    WARPBELL_D static u32 thread_rank() { return port::lane() % Size; }
    WARPBELL_D static void sync() { port::sync((~0u >> (32u - Size)) << (port::lane() & ~(Size - 1u))); }
};
struct cooperative_block_t {
    WARPBELL_D static u32 group_index() { return port::block_index(); }
    WARPBELL_D static u32 size() { return port::block_threads(); }
    WARPBELL_D static u32 thread_rank() { return port::thread_index(); }
    WARPBELL_D static void sync() { port::sync_block(); }
};
class cooperative_part_t {
  public:
    WARPBELL_D explicit cooperative_part_t(u32 mask) : mask_(mask) {}
    WARPBELL_D u32 num_threads() const { return port::population(mask_); }
    WARPBELL_D u32 size() const { return num_threads(); }
    WARPBELL_D u32 thread_rank() const { return rank_in(mask_); }
    WARPBELL_D void sync() const { port::sync(mask_); }

  protected:
    WARPBELL_D u32 get_mask() const { return mask_; }

  private:
    u32 mask_;
};
template <u32 Size> WARPBELL_D cooperative_tile_t<Size> cooperative_tile() { return {}; }
WARPBELL_D cooperative_block_t cooperative_block() { return {}; }
WARPBELL_D cooperative_part_t cooperative_part(bool member) {
    const u32 members = this_warp().ballot(member);
    return cooperative_part_t(member ? members : ~members);
}

#endif

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
