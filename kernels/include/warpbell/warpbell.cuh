// Warpbell's device library: a table of contents. Layers, each usable alone and built on those above it:
//
//   abi.h        plain data that host and kernels share (C99)
//   port.cuh     the platform: memory accesses, fences, collectives, clock
//   types.cuh    lba, extent, dma_span, optional
//   status.cuh   what became of a command, in four bytes
//   group.cuh    this_thread(), this_warp(), lanes
//   token.cuh    io_token: a command in flight, move-only
//   queue.cuh    raw commands over one queue pair, exclusive or shared
//   io.cuh       read, write, flush: blocking, async, one per lane
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
#include "group.cuh"
#include "io.cuh"
#include "port.cuh"
#include "queue.cuh"
#include "status.cuh"
#include "token.cuh"
#include "types.cuh"

namespace wb = warpbell;
