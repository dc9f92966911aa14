/* Warpbell from C: schedules of tiles for kernels that stream them (docs/cache.md). What warpbell.h says of
 * handles, errors, threads, ownership and options holds here too. Kernels include <warpbell/stream.cuh>.
 * Since version 7. */
#ifndef WARPBELL_TILES_H
#define WARPBELL_TILES_H

#include <warpbell/abi_stream.h>
#include <warpbell/volume.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warpbell_tiles warpbell_tiles;

/* Rows of blocks, which lie one behind the other once the tile was loaded. At most 1 MiB. */
typedef struct warpbell_tile {
    uint64_t number;      /* one tile has one number, wherever it is used */
    uint64_t first_block; /* of its first row */
    uint64_t row_stride;  /* blocks from the beginning of a row to that of the next */
    uint32_t blocks;      /* of a row */
    uint32_t rows;        /* 1 to 32 */
} warpbell_tile;

typedef struct warpbell_tiles_options {
    uint32_t api_version, size;
    uint32_t slots; /* tiles that the ring has room for, 1 to 32: `Slots` of tile_stream; 0: 2 */
    uint32_t ahead; /* a tile is loaded where none of so many steps before it lies, so that its load need not
                     * wait for them; less than slots; 0: 1, which is double buffering; WARPBELL_NONE: none */
} warpbell_tiles_options;
#define WARPBELL_TILES_OPTIONS_INIT WARPBELL_INIT(warpbell_tiles_options)

/* A schedule of tiles that are used in this order, `count` of them. A tile that is still in the ring is not
 * loaded again; of those that may be overwritten, the one goes whose next use is farthest away. */
WARPBELL_API warpbell_error warpbell_queues_tiles(warpbell_queues* queues, const warpbell_tile* order,
                                                  size_t count, const warpbell_tiles_options* options,
                                                  warpbell_tiles** tiles);
/* The same for blocks of a volume. */
WARPBELL_API warpbell_error warpbell_volume_tiles(warpbell_volume* volume, const warpbell_tile* order,
                                                  size_t count, const warpbell_tiles_options* options,
                                                  warpbell_tiles** tiles);
/* Busy while a run of its queues is open, or of one of its volume's. */
WARPBELL_API warpbell_error warpbell_tiles_close(warpbell_tiles* tiles);

/* The kernel argument for `listed_tiles`. Valid until the schedule is closed. */
WARPBELL_API warpbell_error warpbell_tiles_get_ref(warpbell_tiles* tiles, warpbell_schedule_ref* ref);

typedef struct warpbell_tiles_info {
    uint32_t api_version, size;
    uint64_t steps;
    uint64_t loads;        /* steps that load their tile; the others find it */
    uint64_t loaded_bytes; /* by all loads */
    uint64_t ring_bytes;   /* of the buffer that kernels load into */
    uint32_t slot_bytes;   /* the largest tile's */
    uint32_t pad0;
} warpbell_tiles_info;
#define WARPBELL_TILES_INFO_INIT WARPBELL_INIT(warpbell_tiles_info)
WARPBELL_API warpbell_error warpbell_tiles_get_info(warpbell_tiles* tiles, warpbell_tiles_info* info);

/* Shared memory of a block that streams with so many stages, 1 to 32: warpbell_launch_options.shared_bytes.
 */
WARPBELL_API warpbell_error warpbell_tiles_get_shared_bytes(warpbell_tiles* tiles, uint32_t stages,
                                                            uint32_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
