/* The flat layer: the device library as plain functions, for languages that cannot instantiate its C++
 * templates. C99, and everything that calls C functions in a kernel; the functions are device functions.
 * docs/flat-layer.md has examples.
 *
 * Where they are. lib/device/ of an installation has them as LTO-IR and as a relocatable object, for nvcc and
 * nvJitLink, and as LLVM bitcode. A kernel that is compiled as a whole (CPU target, NVRTC) includes
 * <warpbell/flat.cuh> instead.
 *
 * Who calls. The name's end says it:
 *   (none)  one thread, for itself; any lanes, together or not
 *   _warp   all 32 lanes of a warp with the same arguments: one I/O, and one answer in every lane
 *   _each   all 32 lanes of a warp, each with its own arguments and its own answer; one doorbell
 * `session`, `array` and `token` name memory of the calling lane in all three: each lane has its own. In
 * _warp and _each calls the sessions are of one attachment, the arrays of one cache, and timeouts are alike.
 * A thread may make the calls of one thread on a session of a warp's if the queues are shared.
 *
 * Shared and exclusive queues take the same calls. An exclusive queue belongs to those who attached: to a
 * warp that calls together, or to one thread, which is lane 0 of its warp. Any other call is refused with
 * WARPBELL_STATUS_INVALID_FIELD and does nothing, and so is a _warp or _each call on sessions that lanes
 * attached one by one. warpbell_detach, warpbell_switch_to_successor, warpbell_array_open and
 * warpbell_array_close are of whoever attached: a warp calls them together. One lane of it alone waits for
 * the others.
 *
 * What was not attached. Refused likewise: every call on a session whose memory is all zeroes
 * (WARPBELL_SESSION_INIT), whose attach was refused, or that was detached; every call on an array of such a
 * session, whose memory is all zeroes (WARPBELL_ARRAY_INIT), whose open was refused, or that was closed. Of
 * memory that was neither zeroed nor handed to attach or array_open nothing is known: what a call does with
 * it is undefined. So attach and array_open come first, or zeroes do. A session is detached before it is
 * attached again, else the host may be kept from replacing a lost queue. Its arrays are closed before that,
 * or opened anew after it: what a call does with an array of an earlier attachment is undefined.
 *
 * Result. A status of abi.h, unless the function says otherwise: 0 is success, below
 * WARPBELL_STATUS_LIBRARY it is the SSD's, else WARPBELL_STATUS_LIBRARY | WARPBELL_STATUS_*.
 *
 * Memory. After success of a read, its data is visible to the lanes that got the status. A write carries what
 * the calling lane stored before it; what other lanes stored, where a barrier or a fence came between. Calls
 * order nothing else. Session, array and token may lie in local, shared or global memory; they are not
 * copied, and nobody else touches them. References are read during the call alone, unless it says otherwise.
 *
 * Units. Blocks are logical blocks of the namespace. `offset` counts bytes of the buffer. `timeout_ns` is of
 * the whole call; 0 stands for the queue's. No call waits longer: WARPBELL_STATUS_TIMED_OUT where a command
 * was in flight by then. */
#ifndef WARPBELL_WARPBELL_DEVICE_H
#define WARPBELL_WARPBELL_DEVICE_H

#include "abi.h"
#include "abi_cache.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define WARPBELL_DEVICE __device__
#else
#define WARPBELL_DEVICE
#endif

/* What a session and an array take of the caller's memory; both have some room to spare. */
#define WARPBELL_SESSION_BYTES 512u
#define WARPBELL_ARRAY_BYTES 512u

/* Answer of the try_wait calls beside a status: nothing has come yet. */
#define WARPBELL_PENDING 0x10000u
/* In place of an index: this lane wants no element. */
#define WARPBELL_NO_INDEX (~UINT64_C(0))
/* Of the wait_any calls, in place of a token's number: none was answered. */
#define WARPBELL_NO_TOKEN 0xffffffffu

/* warpbell_command.opcode, as NVMe numbers them */
#define WARPBELL_OPCODE_FLUSH 0x00u
#define WARPBELL_OPCODE_WRITE 0x01u
#define WARPBELL_OPCODE_READ 0x02u
#define WARPBELL_OPCODE_COMPARE 0x05u
#define WARPBELL_OPCODE_WRITE_ZEROES 0x08u
/* warpbell_command.flags. Force Unit Access: what is written is durable when it is answered */
#define WARPBELL_FUA 0x40000000u

#ifdef __cplusplus
extern "C" {
#endif

/* A word of memory that has other types in it: a compiler keeps what is stored as such words, or copied, in
 * order with what the functions here store. */
typedef uint64_t __attribute__((may_alias)) warpbell_opaque;

/* A lane's way to a namespace. Needs no initialisation where attach is the first call. 16-byte aligned. */
typedef struct warpbell_session {
    warpbell_opaque opaque[WARPBELL_SESSION_BYTES / 8u];
} __attribute__((aligned(16))) warpbell_session;

/* A lane's way to an array on the SSD, over a page cache. Needs none where array_open is the first call.
 * 16-byte aligned. */
typedef struct warpbell_array {
    warpbell_opaque opaque[WARPBELL_ARRAY_BYTES / 8u];
} __attribute__((aligned(16))) warpbell_array;

/* One that refuses everything. */
#define WARPBELL_SESSION_INIT {{0}}
#define WARPBELL_ARRAY_INIT {{0}}

/* A command in flight, or why it is not: a value of 8 bytes. It is answered once. */
typedef uint64_t warpbell_token;

/* What an SSD is to do. */
typedef struct warpbell_command {
    uint32_t opcode;                   /* WARPBELL_OPCODE_READ.. */
    uint32_t flags;                    /* of dword 12, bits 31:16: WARPBELL_FUA; none of a flush */
    uint64_t block;                    /* the first of */
    const warpbell_buffer_ref* buffer; /* not of a flush, nor of Write Zeroes */
    uint64_t offset;
    uint32_t blocks; /* so many; not of a flush */
    uint32_t pad0;
} warpbell_command;

/* ---- a session ---- */

/* Attaches to `ns`, which every call of the session reads: it stays where it is, unchanged, and its queues
 * stay attached by the host, until the session is detached. `warp`: this warp's number in the launch, below
 * ns->warps, and no other's; the threads of a warp give the same. WARPBELL_STATUS_INVALID_FIELD: a reference
 * of another version, a number beyond ns->warps, a lane other than 0 alone on an exclusive queue; the session
 * refuses everything then. WARPBELL_STATUS_QUEUE_GONE: go on with warpbell_switch_to_successor, or detach, as
 * the host keeps the lost queue for a session until then. */
WARPBELL_DEVICE uint32_t warpbell_attach(warpbell_session* session, const warpbell_namespace_ref* ns,
                                         uint32_t warp);
WARPBELL_DEVICE uint32_t warpbell_attach_warp(warpbell_session* session, const warpbell_namespace_ref* ns,
                                              uint32_t warp);
/* The last call on a session, made as the attachment was: by one thread, or by the warp. On an exclusive
 * queue it saves what the next kernel goes on with. A session that goes without it may keep the host from
 * replacing a lost queue. */
WARPBELL_DEVICE uint32_t warpbell_detach(warpbell_session* session);
/* After WARPBELL_STATUS_QUEUE_GONE, made as the attachment was: goes on with the queue that the host puts in
 * place of the lost one. Success: the buffers of all commands before are free. WARPBELL_STATUS_QUEUE_GONE:
 * none came in time, WARPBELL_STATUS_SSD_LOST: none will come. */
WARPBELL_DEVICE uint32_t warpbell_switch_to_successor(warpbell_session* session, uint64_t timeout_ns);

/* ---- calls that wait ---- */

/* Blocks [block, block + blocks) into the buffer, from byte `offset` on; of any size, in as many commands as
 * it takes. Refused before anything is sent: WARPBELL_STATUS_OUT_OF_RANGE, _OUT_OF_BUFFER, _MISALIGNED (not a
 * multiple of 4 bytes), _INVALID_FIELD (no blocks), _OUT_OF_LEASE. */
WARPBELL_DEVICE uint32_t warpbell_read(warpbell_session* session, uint64_t block, uint32_t blocks,
                                       const warpbell_buffer_ref* buffer, uint64_t offset,
                                       uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_read_warp(warpbell_session* session, uint64_t block, uint32_t blocks,
                                            const warpbell_buffer_ref* buffer, uint64_t offset,
                                            uint64_t timeout_ns);
/* A lane with 0 blocks reads nothing, and gets success. */
WARPBELL_DEVICE uint32_t warpbell_read_each(warpbell_session* session, uint64_t block, uint32_t blocks,
                                            const warpbell_buffer_ref* buffer, uint64_t offset,
                                            uint64_t timeout_ns);

/* The same from the buffer to the SSD. Also refused: WARPBELL_STATUS_READ_ONLY. */
WARPBELL_DEVICE uint32_t warpbell_write(warpbell_session* session, uint64_t block, uint32_t blocks,
                                        const warpbell_buffer_ref* buffer, uint64_t offset,
                                        uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_write_warp(warpbell_session* session, uint64_t block, uint32_t blocks,
                                             const warpbell_buffer_ref* buffer, uint64_t offset,
                                             uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_write_each(warpbell_session* session, uint64_t block, uint32_t blocks,
                                             const warpbell_buffer_ref* buffer, uint64_t offset,
                                             uint64_t timeout_ns);

/* Any command, refused as a read or a write is; WARPBELL_STATUS_INVALID_FIELD: flags that are not to be
 * chosen, or an opcode that is none of WARPBELL_OPCODE_*. A Compare or a Write Zeroes that the SSD lacks is
 * not sent, and answered as the SSD would: 0x4001, Invalid Command Opcode. Whether blocks and data of a
 * Compare differ says warpbell_status_differs. `command` is read during the call alone. */
WARPBELL_DEVICE uint32_t warpbell_execute(warpbell_session* session, const warpbell_command* command,
                                          uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_execute_warp(warpbell_session* session, const warpbell_command* command,
                                               uint64_t timeout_ns);
/* A lane with 0 blocks does nothing, and gets success. A flush is refused: it is not of a lane. */
WARPBELL_DEVICE uint32_t warpbell_execute_each(warpbell_session* session, const warpbell_command* command,
                                               uint64_t timeout_ns);

/* Makes durable what was answered before. */
WARPBELL_DEVICE uint32_t warpbell_flush(warpbell_session* session, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_flush_warp(warpbell_session* session, uint64_t timeout_ns);

/* ---- calls that do not wait for the answer ---- */

/* Begins a read or a write: for one thread and for each lane of one command (WARPBELL_STATUS_TOO_LARGE above
 * ns->max_blocks), for a warp of up to 32. `token` is overwritten. Success: begun. Else it says why not:
 * beside refusals WARPBELL_STATUS_NO_CID (the lane has as many in flight as it may) and _NOT_SUBMITTED (no
 * room by `timeout_ns`). A wait on the token is answered with it, too; after a _warp call all lanes make it,
 * even those whose part was refused. Until then the SSD may use the buffer. */
WARPBELL_DEVICE uint32_t warpbell_read_async(warpbell_session* session, warpbell_token* token, uint64_t block,
                                             uint32_t blocks, const warpbell_buffer_ref* buffer,
                                             uint64_t offset, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_read_async_warp(warpbell_session* session, warpbell_token* token,
                                                  uint64_t block, uint32_t blocks,
                                                  const warpbell_buffer_ref* buffer, uint64_t offset,
                                                  uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_read_async_each(warpbell_session* session, warpbell_token* token,
                                                  uint64_t block, uint32_t blocks,
                                                  const warpbell_buffer_ref* buffer, uint64_t offset,
                                                  uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_write_async(warpbell_session* session, warpbell_token* token,
                                              uint64_t block, uint32_t blocks,
                                              const warpbell_buffer_ref* buffer, uint64_t offset,
                                              uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_write_async_warp(warpbell_session* session, warpbell_token* token,
                                                   uint64_t block, uint32_t blocks,
                                                   const warpbell_buffer_ref* buffer, uint64_t offset,
                                                   uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_write_async_each(warpbell_session* session, warpbell_token* token,
                                                   uint64_t block, uint32_t blocks,
                                                   const warpbell_buffer_ref* buffer, uint64_t offset,
                                                   uint64_t timeout_ns);
/* The same of any command. */
WARPBELL_DEVICE uint32_t warpbell_submit(warpbell_session* session, warpbell_token* token,
                                         const warpbell_command* command, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_submit_warp(warpbell_session* session, warpbell_token* token,
                                              const warpbell_command* command, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_submit_each(warpbell_session* session, warpbell_token* token,
                                              const warpbell_command* command, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_flush_async(warpbell_session* session, warpbell_token* token,
                                              uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_flush_async_warp(warpbell_session* session, warpbell_token* token,
                                                   uint64_t timeout_ns);

/* Waits, and consumes the token; a token that was answered is success. WARPBELL_STATUS_TIMED_OUT: the SSD may
 * use the buffer until the host has aborted the command. _warp for tokens of _warp calls, _each for those of
 * _each calls. */
WARPBELL_DEVICE uint32_t warpbell_wait(warpbell_session* session, warpbell_token* token, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_wait_warp(warpbell_session* session, warpbell_token* token,
                                            uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_wait_each(warpbell_session* session, warpbell_token* token,
                                            uint64_t timeout_ns);

/* Waits until one of `count` tokens of this lane has its answer: of several the first. Its number goes to
 * `index`, its status is returned, and it is consumed. Tokens that were answered are passed over; where there
 * is no other: WARPBELL_NO_TOKEN, and success. When the time is over: WARPBELL_NO_TOKEN, and
 * WARPBELL_STATUS_TIMED_OUT; nothing is given up, the tokens can be waited for again. Tokens of calls of one
 * thread and of _each calls. */
WARPBELL_DEVICE uint32_t warpbell_wait_any(warpbell_session* session, warpbell_token* tokens, uint32_t count,
                                           uint32_t* index, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_wait_any_each(warpbell_session* session, warpbell_token* tokens,
                                                uint32_t count, uint32_t* index, uint64_t timeout_ns);

/* Collects what has come, and does not wait: WARPBELL_PENDING, or the status, which consumes the token. */
WARPBELL_DEVICE uint32_t warpbell_try_wait(warpbell_session* session, warpbell_token* token);
WARPBELL_DEVICE uint32_t warpbell_try_wait_warp(warpbell_session* session, warpbell_token* token);
WARPBELL_DEVICE uint32_t warpbell_try_wait_each(warpbell_session* session, warpbell_token* token);

/* Gives a command up, and consumes the token: its status where it has completed, else
 * WARPBELL_STATUS_TIMED_OUT, with what that means for the buffer. */
WARPBELL_DEVICE uint32_t warpbell_cancel(warpbell_session* session, warpbell_token* token);
WARPBELL_DEVICE uint32_t warpbell_cancel_warp(warpbell_session* session, warpbell_token* token);
WARPBELL_DEVICE uint32_t warpbell_cancel_each(warpbell_session* session, warpbell_token* token);

/* ---- an array on the SSD, over a page cache ---- */

/* `count` elements of `element_bytes`, 1, 2, 4, 8 or 16, from byte `first_byte` of the cached blocks on.
 * `cache` and `pages`, the cache's memory, are of the session's namespace, alike for all warps, and live
 * until the array is closed, as the session does. Several arrays may be open on one cache. Made as the
 * attachment was. WARPBELL_STATUS_INVALID_FIELD: another size, or no cache; a cache that does not fit its
 * memory or the namespace is answered with it by each get and put. Elements of 4 and of 8 bytes at multiples
 * of their size are moved in one piece. */
WARPBELL_DEVICE uint32_t warpbell_array_open(warpbell_array* array, warpbell_session* session,
                                             const warpbell_cache_ref* cache,
                                             const warpbell_buffer_ref* pages, uint64_t first_byte,
                                             uint64_t count, uint32_t element_bytes);
/* Copies element `index` to `value`, which is left alone where this fails. WARPBELL_STATUS_OUT_OF_RANGE:
 * there is none. WARPBELL_STATUS_NO_ROOM: all lines of the cache were pinned; other statuses are of the I/O.
 */
WARPBELL_DEVICE uint32_t warpbell_array_get(warpbell_array* array, uint64_t index, void* value,
                                            uint64_t timeout_ns);
/* Lanes with WARPBELL_NO_INDEX get nothing, and success. Elements of one page share its lookup. */
WARPBELL_DEVICE uint32_t warpbell_array_get_each(warpbell_array* array, uint64_t index, void* value,
                                                 uint64_t timeout_ns);
/* Copies `value` to the element, in the cache: on the SSD after warpbell_array_flush. */
WARPBELL_DEVICE uint32_t warpbell_array_put(warpbell_array* array, uint64_t index, const void* value,
                                            uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_array_put_each(warpbell_array* array, uint64_t index, const void* value,
                                                 uint64_t timeout_ns);
/* Adds to an element of 4 or 8 bytes, modulo 2^32 or 2^64, as one step for all threads that add.
 * WARPBELL_STATUS_INVALID_FIELD: another size; _MISALIGNED: elements do not lie at multiples of their size.
 */
WARPBELL_DEVICE uint32_t warpbell_array_atomic_add(warpbell_array* array, uint64_t index, uint64_t value,
                                                   uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_array_atomic_add_each(warpbell_array* array, uint64_t index, uint64_t value,
                                                        uint64_t timeout_ns);
/* What was put before, by whoever has returned, into any array of the cache, is on the SSD, and durable. */
WARPBELL_DEVICE uint32_t warpbell_array_flush(warpbell_array* array, uint64_t timeout_ns);
WARPBELL_DEVICE uint32_t warpbell_array_flush_warp(warpbell_array* array, uint64_t timeout_ns);
/* The last call on an array, made as the attachment was: adds to the cache's counts. Writes nothing back. */
WARPBELL_DEVICE uint32_t warpbell_array_close(warpbell_array* array);

/* ---- statuses: 1 or 0. Any thread. ---- */

/* Success. */
WARPBELL_DEVICE uint32_t warpbell_status_ok(uint32_t status);
/* Of a Compare: the blocks hold something else. An answer, and no failure of the SSD's. */
WARPBELL_DEVICE uint32_t warpbell_status_differs(uint32_t status);
/* The same call may succeed when it is made again. */
WARPBELL_DEVICE uint32_t warpbell_status_retryable(uint32_t status);
/* The SSD may still read or write the call's buffer; also of WARPBELL_PENDING. */
WARPBELL_DEVICE uint32_t warpbell_status_buffer_in_use(uint32_t status);

#ifdef __cplusplus
}
#endif

#endif
