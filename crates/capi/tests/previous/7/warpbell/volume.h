/* Warpbell from C: several SSDs as one volume (docs/volumes.md). What warpbell.h says of handles, errors,
 * threads, ownership and options holds here too. Kernels include <warpbell/volume.cuh>. Since version 7.
 *
 * A volume has no leases of its own. */
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
/* Its buffers are closed with it; the memory of those that were not closed before stays mapped until the
 * queues are closed. Busy while a run, a
 * cache, tiles or I/O of it are open, or a run of its queues. */
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
/* Memory of yours for the same: at a multiple of 4 bytes, readable and writable. The SSDs reach the whole
 * pages around it. It must stay until the buffer is closed, or the queues. */
WARPBELL_API warpbell_error warpbell_volume_buffer_register(warpbell_volume* volume, void* memory,
                                                            size_t bytes, warpbell_volume_buffer** buffer);
/* Unmaps it, before the volume is closed. Busy while a run of the volume or its queues is open, a request
 * over it has not ended, or a command of a kernel has no completion. WARPBELL_ERROR_IN_USE: closed, but a
 * controller did not delete the queue of a request over it, and may still use the memory until the SSD is
 * closed. */
WARPBELL_API warpbell_error warpbell_volume_buffer_close(warpbell_volume_buffer* buffer);
/* The kernel argument that names the buffer. Valid until it is closed, or the volume. */
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

/* ---- I/O by the host ---- */

typedef struct warpbell_volume_io warpbell_volume_io;

typedef struct warpbell_volume_io_options {
    uint32_t api_version, size;
    uint64_t timeout_ns; /* of one command; 0: 30 s */
    uint32_t depth;      /* commands in flight on each SSD; 0: 32 */
    uint32_t write;      /* 1: for writes too, which each SSD must permit (allow_write) */
} warpbell_volume_io_options;
#define WARPBELL_VOLUME_IO_OPTIONS_INIT WARPBELL_INIT(warpbell_volume_io_options)

/* Queues of the host's, one of each SSD, for requests that are in flight at once. No thread drives them: the
 * calls below do, and take turns. */
WARPBELL_API warpbell_error warpbell_volume_io_open(warpbell_volume* volume,
                                                    const warpbell_volume_io_options* options,
                                                    warpbell_volume_io** io);
/* Busy while there are requests whose end was not taken. Waits for the controllers. */
WARPBELL_API warpbell_error warpbell_volume_io_close(warpbell_volume_io* io);

/* Begins to read blocks [first_block, first_block + blocks) of the volume into a buffer of it, from byte
 * `at` on, a multiple of 4. `request` gets a number, 1 of the first. The request is split where its blocks go
 * on at another SSD. What one replica fails is read from the next, unless the SSD has not answered: it may
 * still write to the buffer. Replicas that kernels have dropped are not read. */
WARPBELL_API warpbell_error warpbell_volume_io_read(warpbell_volume_io* io, warpbell_volume_buffer* buffer,
                                                    uint64_t at, uint64_t first_block, uint64_t blocks,
                                                    uint64_t* request);
/* Begins to write them to each replica. It fails where one fails: until the same blocks are written again,
 * replicas differ. */
WARPBELL_API warpbell_error warpbell_volume_io_write(warpbell_volume_io* io, warpbell_volume_buffer* buffer,
                                                     uint64_t at, uint64_t first_block, uint64_t blocks,
                                                     uint64_t* request);
/* Begins to make durable what was written before. */
WARPBELL_API warpbell_error warpbell_volume_io_flush(warpbell_volume_io* io, uint64_t* request);

/* How a request ended. */
typedef struct warpbell_volume_io_end {
    uint32_t api_version, size;
    uint64_t request;
    uint32_t error; /* a warpbell_error: WARPBELL_OK, or what the first part came to that failed */
    uint32_t pad0;
    char text[256]; /* its message, cut to fit; ends with 0 */
} warpbell_volume_io_end;
#define WARPBELL_VOLUME_IO_END_INIT WARPBELL_INIT(warpbell_volume_io_end)
/* The next request that has ended; each is given once, in no order. Waits at most `timeout_ns` for one (0:
 * looks once; UINT64_MAX: as long as there are requests). WARPBELL_ERROR_TIMEOUT: none has ended.
 * WARPBELL_ERROR_INVALID: there is none in flight. */
WARPBELL_API warpbell_error warpbell_volume_io_next(warpbell_volume_io* io, uint64_t timeout_ns,
                                                    warpbell_volume_io_end* end);

#ifdef __cplusplus
}
#endif

#endif
