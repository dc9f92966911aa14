/* Asynchronous I/O of the host: queues that a CPU thread drives by itself, without kernels. C99.
 *
 *     warpbell_io_buffer_alloc(ssd, bytes, &memory, &buffer);
 *     warpbell_io_queue_create(ssd, NULL, &queue);
 *     warpbell_io_submit(queue, requests, count, &submitted);
 *     warpbell_io_poll(queue, 1, 32, UINT64_MAX, completions, &completed);
 *
 * Handles, errors, ownership, options and versions are those of warpbell.h. A queue is used by one thread at
 * a time: a call while another thread is in one is WARPBELL_ERROR_BUSY. Threads that each have a queue of
 * their own do not wait for each other. Nothing here allocates memory or enters the kernel per request. */
#ifndef WARPBELL_HOST_IO_H
#define WARPBELL_HOST_IO_H

#include <warpbell/warpbell.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ---- */

typedef struct warpbell_io_buffer warpbell_io_buffer;

/* At least `bytes` zeroed bytes at `memory`, which begins on a page: for requests on any queue of this SSD.
 * Since version 7, as all of this header. */
WARPBELL_API warpbell_error warpbell_io_buffer_alloc(warpbell_ssd* ssd, size_t bytes, void** memory,
                                                     warpbell_io_buffer** buffer);
/* The same for memory of the caller's; its contents stay. It is mapped once, with the pages of 4096 bytes
 * around it. It begins at a multiple of 4, is readable and writable, and neither moves nor goes away until
 * the buffer was closed, and those whose memory begins or ends on the same pages. Memory that overlaps
 * another open buffer of the SSD is WARPBELL_ERROR_INVALID. */
WARPBELL_API warpbell_error warpbell_io_buffer_register(warpbell_ssd* ssd, void* memory, size_t bytes,
                                                        warpbell_io_buffer** buffer);
/* Unmaps it; what was allocated is gone. Busy while a request over it was not polled.
 * WARPBELL_ERROR_IN_USE: closed, but the controller did not delete a queue that had requests over it, and may
 * still use the memory: memory of yours must stay as it is until the SSD was closed. */
WARPBELL_API warpbell_error warpbell_io_buffer_close(warpbell_io_buffer* buffer);

/* ---- queues ---- */

typedef struct warpbell_io_queue warpbell_io_queue;

typedef struct warpbell_io_queue_options {
    uint32_t api_version, size;
    uint64_t timeout_ns; /* for a command, then its queue is given up; 0: 30 s */
    uint32_t nsid;       /* 0: the first usable namespace */
    uint32_t depth;      /* requests that were not polled, and commands in flight; 0: 32 */
} warpbell_io_queue_options;
#define WARPBELL_IO_QUEUE_OPTIONS_INIT WARPBELL_INIT(warpbell_io_queue_options)

/* A queue pair of the host's own, of those that the controller granted. Waits for the controller. */
WARPBELL_API warpbell_error warpbell_io_queue_create(warpbell_ssd* ssd,
                                                     const warpbell_io_queue_options* options,
                                                     warpbell_io_queue** queue);
/* Deletes it. Busy while a request was not polled. Waits for the controller; where that does not delete it,
 * the message says so, the handle is closed all the same, and the queue is gone with the SSD. */
WARPBELL_API warpbell_error warpbell_io_queue_close(warpbell_io_queue* queue);

/* ---- requests ---- */

/* warpbell_io_request.op */
#define WARPBELL_IO_READ 1u
#define WARPBELL_IO_WRITE 2u
#define WARPBELL_IO_FLUSH 3u        /* begins when all that was submitted before it has ended */
#define WARPBELL_IO_TRIM 4u         /* the blocks are not needed any more (Dataset Management, Deallocate) */
#define WARPBELL_IO_WRITE_ZEROES 5u /* the blocks become zero */

typedef struct warpbell_io_request {
    uint32_t op; /* WARPBELL_IO_* */
    uint32_t pad0;
    uint64_t lba;   /* first block; of a flush 0 */
    uint64_t bytes; /* a multiple of the block size; of a flush 0 */
    void* data;     /* of a read or a write: in one open buffer of the SSD, at a multiple of 4; else NULL */
    uint64_t tag;   /* comes back with the completion */
} warpbell_io_request;

/* Submits requests in order, with one doorbell where the queue has room for all. Requests above what one
 * command can move are split. They may complete in any order; a read does not see a write that has not
 * completed. Returns at the first request that is refused; `submitted` requests before it were taken.
 * WARPBELL_ERROR_BUSY: `depth` requests were not polled. Requests that change blocks need a namespace that
 * is writable. The memory of a request is the SSD's until its completion was polled. */
WARPBELL_API warpbell_error warpbell_io_submit(warpbell_io_queue* queue, const warpbell_io_request* requests,
                                               uint32_t count, uint32_t* submitted);

typedef struct warpbell_io_completion {
    uint64_t tag;
    uint64_t bytes;  /* the request's if it succeeded; 0 if not: how much of it was done is not known */
    uint32_t status; /* 0: success; warpbell_status_text() has words for others */
    uint32_t pad0;
} warpbell_io_completion;

/* Polls until `min` requests have completed, or all that were submitted, and gives up to `max` of them: each
 * once. Waits at most `timeout_ns` (0: looks once; UINT64_MAX: until then); with WARPBELL_ERROR_TIMEOUT
 * `completed` may be above 0. A command without an answer within the queue's own timeout ends with a status,
 * as do all others that are in flight; the next submission makes the queue anew. */
WARPBELL_API warpbell_error warpbell_io_poll(warpbell_io_queue* queue, uint32_t min, uint32_t max,
                                             uint64_t timeout_ns, warpbell_io_completion* completions,
                                             uint32_t* completed);

#ifdef __cplusplus
}
#endif

#endif
