/* Warpbell from C: several SSDs as one volume (docs/volumes.md). What warpbell.h says of handles, errors,
 * threads, ownership and options holds here too. Kernels include <warpbell/volume.cuh>. Since version 7.
 *
 * A volume is for kernels: the host reads and writes its SSDs. It has no leases of its own. */
#ifndef WARPBELL_VOLUME_H
#define WARPBELL_VOLUME_H

#include <warpbell/abi_volume.h>
#include <warpbell/warpbell.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warpbell_volume warpbell_volume;
typedef struct warpbell_volume_buffer warpbell_volume_buffer;

typedef struct warpbell_volume_options {
    uint32_t api_version, size;
    uint64_t chunk_bytes; /* any number of whole blocks of the volume; 0: 128 KiB */
    uint32_t layout; /* WARPBELL_VOLUME_STRIPE (the default), WARPBELL_VOLUME_REPLICATE (each SSD has all)
                      * or WARPBELL_VOLUME_CONCATENATE */
    uint32_t pad0;
    const uint32_t* distances; /* one for each SSD: `nearest` reads the replica with the smallest; NULL: alike
                                */
} warpbell_volume_options;
#define WARPBELL_VOLUME_OPTIONS_INIT WARPBELL_INIT(warpbell_volume_options)

/* Makes a volume of `count` queues, 1 to WARPBELL_VOLUME_MEMBERS_MAX, each of another SSD or namespace. They
 * were attached for one target, all exclusive or all shared. What is on the SSDs is not looked at, and
 * nothing is written: the same SSDs in the same order, with the same layout and chunks, are the same volume.
 * The queues are busy until the volume was closed. */
WARPBELL_API warpbell_error warpbell_volume_create(warpbell_queues* const* queues, uint32_t count,
                                                   const warpbell_volume_options* options,
                                                   warpbell_volume** volume);
/* Its buffers are closed with it; their memory stays mapped until the queues are closed. Busy while a run, a
 * cache or tiles of it are open, or a run of its queues. */
WARPBELL_API warpbell_error warpbell_volume_close(warpbell_volume* volume);

typedef struct warpbell_volume_info {
    uint32_t api_version, size;
    uint64_t blocks;
    uint64_t chunk_bytes;
    uint32_t block_bytes; /* the largest of its SSDs' */
    uint32_t members;
    uint32_t layout;
    uint32_t pad0;
} warpbell_volume_info;
#define WARPBELL_VOLUME_INFO_INIT WARPBELL_INIT(warpbell_volume_info)
WARPBELL_API warpbell_error warpbell_volume_get_info(warpbell_volume* volume, warpbell_volume_info* info);

/* What kernels did on one SSD of a volume. Bytes are counted when a warp detaches, errors at once. */
typedef struct warpbell_member_info {
    uint32_t api_version, size;
    char name[128]; /* the SSD's, cut to fit; ends with 0 */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t errors;       /* commands whose status was not success */
    uint32_t error_status; /* of one of the last of them, for warpbell_status_text() */
    uint32_t present;      /* 1: it has everything that was written; 0: a replica that was dropped */
    uint32_t avoided;      /* 1: reads go to other replicas, as it did not answer one in time */
    uint32_t pad0;
} warpbell_member_info;
#define WARPBELL_MEMBER_INFO_INIT WARPBELL_INIT(warpbell_member_info)
/* Members 0 to warpbell_volume_info.members - 1. Striped: by size, else in the order given. */
WARPBELL_API warpbell_error warpbell_volume_get_member(warpbell_volume* volume, uint32_t index,
                                                       warpbell_member_info* info);

/* The kernel argument that names the volume. Valid until it is closed. */
WARPBELL_API warpbell_error warpbell_volume_get_ref(warpbell_volume* volume, warpbell_volume_ref* ref);

/* At least `bytes` zeroed bytes that kernels, the host and all SSDs of the volume reach: host memory. It
 * stays mapped until the queues are closed. */
WARPBELL_API warpbell_error warpbell_volume_buffer_alloc(warpbell_volume* volume, size_t bytes,
                                                         warpbell_volume_buffer** buffer);
/* The kernel argument that names the buffer. Valid until the volume is closed. */
WARPBELL_API warpbell_error warpbell_volume_buffer_get_ref(warpbell_volume_buffer* buffer,
                                                           warpbell_volume_buffer_ref* ref);
/* As warpbell_buffer_get_host. */
WARPBELL_API warpbell_error warpbell_volume_buffer_get_host(warpbell_volume_buffer* buffer, void** memory,
                                                            size_t* bytes);

/* As warpbell_launch, over all queues of the volume. The run counts as one of each of them. A kernel that is
 * to be stopped looks at the mailbox of the queues that were given first. */
WARPBELL_API warpbell_error warpbell_volume_launch(warpbell_program* program, const char* kernel,
                                                   warpbell_volume* volume, const void* args,
                                                   size_t args_bytes, const warpbell_launch_options* options,
                                                   warpbell_run** run);

#ifdef __cplusplus
}
#endif

#endif
