// Warpbell's device library: a table of contents. Layers, each usable alone and built on those above it:
//
//   abi.h        plain data that host and kernels share (C99)
//   port.cuh     the platform: memory accesses, fences, collectives, clock
//   types.cuh    lba, extent, dma_span, optional
//   status.cuh   what became of a command, in four bytes
//   group.cuh    this_thread(), this_warp(), lanes
//   token.cuh    io_token: a command in flight, move-only
//   trace.cuh    what a queue writes down about itself, where that is asked for
//   queue.cuh    raw commands over one queue pair, exclusive or shared
//   io.cuh       commands for a namespace: one for the group, or one per lane; waited for or not
//   deallocate.cuh   blocks that nobody needs any more
//   outstanding.cuh  several commands of a lane: wait_any, wait_all, cancel
//   coalesce.cuh     requests of a warp that lie side by side, as fewer commands
//   requests.cuh     requests of any size that nobody waits for yet
//   ordered.cuh      requests that are sent, or answered, one after the other: experimental
//   batch.cuh        requests of all threads of a block, or of a warp, as one batch
//   volume.cuh       several SSDs as one: stripe, replicate, concatenate
//   file.cuh         files by their offset; the host says in which extents they lie
//   agent.cuh        warps that do the I/O of others: experimental
//
// Not included here:
//
//   evict.cuh    which line of a cache a page gets
//   cache.cuh    pages of an SSD or a volume, cached
//   array.cuh    an array over a cache, that reads like memory
//   stream.cuh   tiles, from an SSD to a block's shared memory, in a known order
//   file_cache.cuh  pages of a file, cached, for reading
//   prefetch.cuh  pages of a cache that are read before they are wanted: experimental
//
// What is experimental is in namespace warpbell::experimental, and may change in any release.
//
//   __global__ void first_block(const __grid_constant__ warpbell_namespace_ref ns,
//                               const __grid_constant__ warpbell_buffer_ref buffer) {
//       auto warp = wb::this_warp();
//       wb::session<wb::sharing::exclusive> ssd(warp, ns, blockIdx.x);
//       wb::status s = wb::read(warp, ssd, {wb::lba{0}, 1}, wb::dma_span(buffer));
//       ...
//       ssd.detach(warp);
//   }
#pragma once

#include "abi.h"
#include "agent.cuh"
#include "batch.cuh"
#include "coalesce.cuh"
#include "deallocate.cuh"
#include "file.cuh"
#include "group.cuh"
#include "io.cuh"
#include "ordered.cuh"
#include "outstanding.cuh"
#include "port.cuh"
#include "queue.cuh"
#include "requests.cuh"
#include "status.cuh"
#include "token.cuh"
#include "trace.cuh"
#include "types.cuh"
#include "volume.cuh"

// A short name. With WARPBELL_NO_ALIAS defined there is none, for programs that have a wb of their own.
#if !defined(WARPBELL_NO_ALIAS)
namespace wb = warpbell;
#endif
