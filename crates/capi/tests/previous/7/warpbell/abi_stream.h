/* What the host shares with kernels that stream tiles of an SSD (stream.cuh). The rules of abi.h hold here
 * too.
 */
#ifndef WARPBELL_ABI_STREAM_H
#define WARPBELL_ABI_STREAM_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tile_step.flags */
#define WARPBELL_TILE_RESIDENT 1u /* an earlier step has loaded it, and it is still there: no load */

/* One use of a tile: `rows` rows of `blocks` blocks each, one behind the other in the slot. */
typedef struct warpbell_tile_step {
    uint64_t tile;        /* which one */
    uint64_t first_block; /* of its first row */
    uint64_t row_stride;  /* blocks from the beginning of a row to that of the next */
    uint32_t blocks;      /* of a row, at least 1 */
    uint32_t rows;        /* 1 to 32 */
    uint32_t slot;        /* of the ring */
    uint32_t after;       /* so many steps must have been released before it may be loaded */
    uint32_t flags;
    uint32_t pad0;
} warpbell_tile_step;

/* Which tiles are used, in which order, and where each lies. */
typedef struct warpbell_schedule_ref {
    uint32_t abi_version, size;
    uint64_t steps; /* warpbell_tile_step[step_count] */
    uint32_t step_count;
    uint32_t slots;      /* of the ring */
    uint32_t slot_bytes; /* a multiple of 16; no tile is larger */
    uint32_t pad0;
} warpbell_schedule_ref;

#ifdef __cplusplus
}
#endif

#endif
