/* Warpbell from C, C++ and CUDA host code: open an SSD, attach queues for kernels, register memory, compile
 * and run kernels on a GPU or on the CPU. C99; kernels include <warpbell/warpbell.cuh> instead. I/O of the
 * host's own that goes on meanwhile is in <warpbell/host_io.h>.
 *
 * Handles. warpbell_ssd*, warpbell_queues*, warpbell_buffer*, warpbell_lease*, warpbell_program* and
 * warpbell_run* look like pointers and are numbers: never dereference them. NULL is no handle. A handle that
 * was closed, or is of another kind, is refused (WARPBELL_ERROR_HANDLE); no number is given twice. What was
 * made last is closed first: closing something in use is refused (WARPBELL_ERROR_BUSY), and the message says
 * by what. A process may also just exit.
 *
 * Errors. Every function that can fail returns a warpbell_error, and on failure sets the handle that it was
 * to make to NULL. warpbell_error_message() says in words what failed, on what, and what to do.
 *
 * Threads. Every function may be called from any thread at any time; nothing has to be initialised. Not after
 * fork() in the child, and not from signal handlers. Functions marked "waits" can take long; the others
 * return at once. Calls on different handles do not wait for each other, except where it says so.
 *
 * Ownership. Strings and structs that are passed in are copied; the caller keeps them. Memory of the caller's
 * that was registered belongs to the library until its buffer was closed.
 *
 * Options. A struct of options begins with its version and size: start from its _INIT macro, and programs
 * keep working with later libraries, whose structs are longer. Zero in a field means its default; NULL in
 * place of the struct means all defaults.
 *
 * Versions. WARPBELL_API_VERSION is this header's: a program runs with every later library that still takes
 * it (warpbell_api_version() is the library's), and an older library refuses its structs, with both numbers.
 * WARPBELL_ABI_VERSION is that of what kernels and hosts share (abi.h): kernels of another one are refused
 * when they are loaded.
 *
 * Units. Bytes, blocks (of the namespace, 512 or 4096 bytes) and nanoseconds, as the name says. Queues, warps
 * and threads are counts. LBAs count blocks from 0. */
#ifndef WARPBELL_WARPBELL_H
#define WARPBELL_WARPBELL_H

#include <stddef.h>
#include <warpbell/abi.h>

#if defined(__GNUC__)
#define WARPBELL_API __attribute__((visibility("default")))
#else
#define WARPBELL_API
#endif

/* Of this header: it grows with every function, and with every field at the end of a struct. */
#define WARPBELL_API_VERSION 8u

/* A struct of options or results with version and size, and zero in all else. */
#ifdef __cplusplus
#define WARPBELL_INIT(type)                                                                                  \
    ([] {                                                                                                    \
        type made{};                                                                                         \
        made.api_version = WARPBELL_API_VERSION;                                                             \
        made.size = static_cast<uint32_t>(sizeof(type));                                                     \
        return made;                                                                                         \
    }())
#else
#define WARPBELL_INIT(type) {.api_version = WARPBELL_API_VERSION, .size = (uint32_t)sizeof(type)}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions and errors ---- */

/* What a call came to. The first five are also the exit codes of the `warpbell` command. */
typedef enum warpbell_error {
    WARPBELL_OK = 0,
    WARPBELL_ERROR_FAILED = 1,    /* the device or the system failed */
    WARPBELL_ERROR_INVALID = 2,   /* an argument is wrong */
    WARPBELL_ERROR_REFUSED = 3,   /* it could destroy data, and was not allowed by name */
    WARPBELL_ERROR_MISSING = 4,   /* this machine lacks something: a driver, a GPU, a compiler */
    WARPBELL_ERROR_HANDLE = 5,    /* not a handle of this kind, or a closed one */
    WARPBELL_ERROR_BUSY = 6,      /* still in use */
    WARPBELL_ERROR_TIMEOUT = 7,   /* not finished in the time given; it goes on */
    WARPBELL_ERROR_COMPILE = 8,   /* the kernel's source does not compile */
    WARPBELL_ERROR_COMMAND = 9,   /* the SSD completed a command of the host's with an error status */
    WARPBELL_ERROR_INTERNAL = 10, /* a bug in Warpbell */
    WARPBELL_ERROR_IN_USE = 11    /* closed, but the SSD may still use the memory: it must stay as it is */
} warpbell_error;

/* The library's version, such as "0.1.0". */
WARPBELL_API const char* warpbell_version(void);
/* The WARPBELL_API_VERSION that the library was built with. */
WARPBELL_API uint32_t warpbell_api_version(void);
/* The WARPBELL_ABI_VERSION that the library was built with. */
WARPBELL_API uint32_t warpbell_abi_version(void);

/* The name of a code, such as "WARPBELL_ERROR_BUSY"; "unknown" for others. Never NULL. */
WARPBELL_API const char* warpbell_error_name(warpbell_error error);
/* What went wrong in the last call on this thread that failed; "" before the first. Valid until the next call
 * on this thread that fails. Never NULL. */
WARPBELL_API const char* warpbell_error_message(void);
/* A status that a kernel got for an I/O (`status::bits`), in words. Valid until the next call of this
 * function on this thread. Never NULL. */
WARPBELL_API const char* warpbell_status_text(uint32_t status);

/* ---- SSDs ---- */

typedef struct warpbell_ssd warpbell_ssd;

/* What the library does about queues and controllers that do not answer while kernels run (docs/recovery.md).
 * Every step has a limit; 0 is its default. */
typedef struct warpbell_recovery_policy {
    uint32_t api_version, size;
    uint64_t alarm_period_ns;  /* between two polls of queues; 1 ms */
    uint64_t health_period_ns; /* between two polls of the controller's status; 100 ms */
    uint64_t event_period_ns;  /* between two polls for its events; 1 s */
    uint64_t abort_ns;         /* for all Abort commands of one pass; 1 s */
    uint64_t settle_ns;  /* from an Abort to the end of its command, else the queue is given up; 500 ms */
    uint64_t delete_ns;  /* for the deletion of a queue pair, else the controller is reset; 2 s */
    uint64_t replace_ns; /* until there is a queue in place of it, else there will be none; 5 s */
    uint64_t quiesce_ns; /* for kernels to leave all queues before a function level reset; 10 s */
    uint64_t reset_ns;   /* for a reset; 30 s */
    uint64_t reset_window_ns;   /* in which resets are counted; 600 s */
    uint32_t resets;            /* in that time, then the SSD is given up; 8; WARPBELL_NONE: not one */
    uint32_t no_function_reset; /* 1: resets the controller, and never its function */
    uint32_t off;               /* 1: does nothing by itself */
    uint32_t keep_on_release;   /* 1: goes on when the system asks for the function back; else it stops */
} warpbell_recovery_policy;
#define WARPBELL_RECOVERY_POLICY_INIT WARPBELL_INIT(warpbell_recovery_policy)
/* None at all, in a field where 0 is the default. */
#define WARPBELL_NONE UINT32_MAX

typedef struct warpbell_open_options {
    uint32_t api_version, size;
    /* NULL-terminated array of names that may be written: the path of a file behind soft:, the serial number
     * or PCI address of an SSD, a socket. NULL: the host writes nothing but memory. Kernels are not held to
     * it, except for files: a kernel that is given queues can send any command. */
    const char* const* allow_write;
    uint32_t queues;   /* I/O queue pairs to ask for, 1 to 65535; 0: the default, 64 */
    uint32_t prp_only; /* 1: describes data by PRP entries even where the controller takes SGLs */
    /* Where rings of queues lie: "host" (NULL), "cmb" (submission rings in the controller memory buffer),
     * "bar:BDF/N" (both in BAR N of another PCI function), "hbm" (both in the memory of `gpu`), or each kind
     * by itself as "sq=PLACE,cq=PLACE", such as "sq=cmb,cq=hbm". SSDs that name the same BAR share it. */
    const char* rings;
    /* Where data lies: "host" (NULL), "bar:BDF/N", or "hbm": in the memory of `gpu`, "cuda:N" or "ptx". What
     * cannot be had is an error of warpbell_ssd_open, never another place; warpbell_ssd_data_path says what
     * it became.
     */
    const char* data;
    const char* gpu;
    const warpbell_recovery_policy* recovery; /* NULL: the defaults */
    /* How kernels ring doorbells: "auto" (NULL: by themselves where a command proves that it works when
     * queues are attached, else by way of a CPU thread; warpbell_ssd_data_path says why), "mapped" (an error
     * where that cannot be proven), "forwarded". What this SSD cannot have is an error of warpbell_ssd_open;
     * whether stores arrive is known when queues are attached. Since version 5. */
    const char* doorbells;
} warpbell_open_options;
#define WARPBELL_OPEN_OPTIONS_INIT WARPBELL_INIT(warpbell_open_options)

/* Opens an SSD and enables its controller. Names: "soft:size=64m" or "soft:file=PATH" (the software
 * controller), a PCI address ("0000:41:00.0", bound to vfio-pci), "sn:SERIAL", "vfio-user:SOCKET". Waits for
 * the controller. */
WARPBELL_API warpbell_error warpbell_ssd_open(const char* device, const warpbell_open_options* options,
                                              warpbell_ssd** ssd);
/* Disables the controller. Busy while queues are attached, or queues or buffers of host_io.h are open. An
 * error of the controller is reported, and the handle is closed all the same. Waits for the controller. */
WARPBELL_API warpbell_error warpbell_ssd_close(warpbell_ssd* ssd);

typedef struct warpbell_ssd_info {
    uint32_t api_version, size;
    char model[48]; /* text ends with 0 */
    char serial[24];
    char firmware[16];
    uint64_t max_transfer_bytes; /* of one command; 0: no limit */
    uint32_t namespaces;         /* that can be used */
    uint32_t queues;             /* I/O queue pairs that the controller granted */
} warpbell_ssd_info;
#define WARPBELL_SSD_INFO_INIT WARPBELL_INIT(warpbell_ssd_info)
/* What the controller says of itself. */
WARPBELL_API warpbell_error warpbell_ssd_identify(warpbell_ssd* ssd, warpbell_ssd_info* info);

typedef struct warpbell_namespace_info {
    uint32_t api_version, size;
    uint64_t blocks;
    uint32_t block_bytes;
    uint32_t nsid;
    uint32_t writable; /* 1: warpbell_ssd_write is allowed */
    uint32_t pad0;
} warpbell_namespace_info;
#define WARPBELL_NAMESPACE_INFO_INIT WARPBELL_INIT(warpbell_namespace_info)
/* One of the usable namespaces, index 0 to warpbell_ssd_info.namespaces - 1, by ascending nsid. */
WARPBELL_API warpbell_error warpbell_ssd_namespace(warpbell_ssd* ssd, uint32_t index,
                                                   warpbell_namespace_info* info);
/* Where rings and data lie and how doorbells are rung, in words: at most `bytes` bytes with the 0 at the end.
 */
WARPBELL_API warpbell_error warpbell_ssd_data_path(warpbell_ssd* ssd, char* text, size_t bytes);

/* Reads or writes whole blocks from `lba` on, by a queue of the host's own: `bytes` is a multiple of the
 * block size. nsid 0: the first usable namespace. `data` needs no alignment. Waits for the SSD, at most 30 s
 * without an answer; calls on one SSD take turns. */
WARPBELL_API warpbell_error warpbell_ssd_read(warpbell_ssd* ssd, uint32_t nsid, uint64_t lba, void* data,
                                              size_t bytes);
/* Only where the namespace is writable: memory, or named in allow_write. */
WARPBELL_API warpbell_error warpbell_ssd_write(warpbell_ssd* ssd, uint32_t nsid, uint64_t lba,
                                               const void* data, size_t bytes);
/* Makes what was written, by the host or by kernels, durable. */
WARPBELL_API warpbell_error warpbell_ssd_flush(warpbell_ssd* ssd, uint32_t nsid);

/* ---- what happens to an SSD ---- */

/* warpbell_event.kind */
#define WARPBELL_EVENT_REPORTED 1u          /* the controller: an error, its health, namespaces, firmware */
#define WARPBELL_EVENT_CRITICAL 2u          /* SMART critical warning: `warning` has its bits */
#define WARPBELL_EVENT_RECOVERY 3u          /* a step of recovery: `step` says which */
#define WARPBELL_EVENT_RELEASE_REQUESTED 4u /* the system wants the function back */
#define WARPBELL_EVENT_RELEASED 5u          /* it gets it when queues and SSD are closed */
/* warpbell_event.step; 0: one that this header does not know */
#define WARPBELL_STEP_TIMED_OUT 1u
#define WARPBELL_STEP_ABORTED 2u
#define WARPBELL_STEP_RESOLVED 3u
#define WARPBELL_STEP_QUEUE_LOST 4u
#define WARPBELL_STEP_QUEUE_DELETED 5u
#define WARPBELL_STEP_QUEUE_REPLACED 6u
#define WARPBELL_STEP_QUEUE_DEAD 7u
#define WARPBELL_STEP_ID_FREE 8u
#define WARPBELL_STEP_RESET_STARTED 9u
#define WARPBELL_STEP_RESET_DONE 10u
#define WARPBELL_STEP_RESET_FAILED 11u
#define WARPBELL_STEP_SSD_LOST 12u

typedef struct warpbell_event {
    uint32_t api_version, size;
    uint64_t at_ns; /* on the device's clock */
    uint32_t kind;  /* WARPBELL_EVENT_* */
    uint32_t step;  /* WARPBELL_STEP_* */
    uint32_t queue; /* of a step of one queue: its index among its attachment's queues, */
    uint32_t qid;   /* the identifier that it had; 0: no queue's, */
    uint32_t tag;   /* and the command of TIMED_OUT and ABORTED */
    uint32_t warning;
    char text[256]; /* in words, cut to fit; ends with 0 */
} warpbell_event;
#define WARPBELL_EVENT_INIT WARPBELL_INIT(warpbell_event)
/* The next event of this SSD, oldest first; each is given once. Waits at most so long for one;
 * WARPBELL_ERROR_TIMEOUT: there is none. A reader that is behind by more than 1024 loses the oldest. */
WARPBELL_API warpbell_error warpbell_ssd_next_event(warpbell_ssd* ssd, uint64_t timeout_ns,
                                                    warpbell_event* event);

/* What recovery did since the SSD was opened. */
typedef struct warpbell_recovery_counters {
    uint32_t api_version, size;
    uint64_t alarms;    /* of queues, answered */
    uint64_t timed_out; /* commands that kernels gave up, as the host saw them */
    uint64_t aborts;    /* Abort commands; of these: */
    uint64_t aborts_acknowledged;
    uint64_t aborts_not_found; /* the controller did not find the command */
    uint64_t aborts_unanswered;
    uint64_t late_completions; /* that came after the deadline of their command */
    uint64_t queues_lost;      /* given up */
    uint64_t queues_replaced;
    uint64_t queues_dead; /* given up, and not replaced */
    uint64_t ids_freed;   /* queue identifiers that came back when kernels had left */
    uint64_t resets;
    uint64_t resets_failed;
    uint64_t ssds_lost;   /* 1: the SSD was given up */
    uint64_t events_lost; /* that nobody took in time */
} warpbell_recovery_counters;
#define WARPBELL_RECOVERY_COUNTERS_INIT WARPBELL_INIT(warpbell_recovery_counters)
WARPBELL_API warpbell_error warpbell_ssd_recovery_counters(warpbell_ssd* ssd,
                                                           warpbell_recovery_counters* counters);

/* ---- queues for kernels ---- */

typedef struct warpbell_queues warpbell_queues;

typedef struct warpbell_attach_options {
    uint32_t api_version, size;
    const char* target;         /* where kernels run: "cpu" (the default), "cuda:N" or "ptx" */
    uint64_t timeout_ns;        /* of each wait in a kernel, from its start; 0: 10 s */
    uint32_t nsid;              /* 0: the first usable namespace */
    uint32_t queues;            /* queue pairs; 0: 1 */
    uint32_t warps;             /* warps over all queues; 0: as many as queues */
    uint32_t iodepth;           /* commands outstanding per queue, 1 to 65535; 0: 64 */
    uint32_t commands_per_lane; /* in flight; 0: 4, or what command identifiers allow */
    uint32_t sharing; /* WARPBELL_SHARING_EXCLUSIVE (one warp per queue) or WARPBELL_SHARING_SHARED */
    uint32_t replacement_queues; /* replacements of each queue that memory is set aside for, at most 4096; 0:
                                  * 2; WARPBELL_NONE: none */
    uint32_t no_recovery;        /* 1: alarms of these queues are not answered */
} warpbell_attach_options;
#define WARPBELL_ATTACH_OPTIONS_INIT WARPBELL_INIT(warpbell_attach_options)

/* Creates queue pairs whose rings and doorbells kernels use by themselves. Waits for the controller. */
WARPBELL_API warpbell_error warpbell_queues_attach(warpbell_ssd* ssd, const warpbell_attach_options* options,
                                                   warpbell_queues** queues);
/* Deletes the queue pairs, then closes their buffers. Busy while one of their runs is open. A kernel that you
 * launched with CUDA yourself must have ended: the library does not know of it. Waits for the controller.
 * Busy too where another thread is in a call with these queues: then the handle is closed all the same, and
 * the queues are deleted at the end of that call. WARPBELL_ERROR_IN_USE: closed, but the controller did not
 * delete the queues, and was not reset either. It may still write to their buffers: memory of yours that was
 * registered must stay as it is until the SSD was closed.
 */
WARPBELL_API warpbell_error warpbell_queues_close(warpbell_queues* queues);

/* The kernel argument that names the namespace with all its queues. Its addresses are the target's: on
 * "cuda:N" pass it to a kernel however it is launched. Valid until the queues are closed. */
WARPBELL_API warpbell_error warpbell_queues_get_namespace_ref(warpbell_queues* queues,
                                                              warpbell_namespace_ref* ref);
/* The same for one queue pair, for kernels that use queue.cuh alone. */
WARPBELL_API warpbell_error warpbell_queues_get_queue_ref(warpbell_queues* queues, uint32_t index,
                                                          warpbell_queue_ref* ref);

/* A warpbell_mailbox that kernels of these queues and the host share: `address` is the target's, for a
 * kernel's arguments. A kernel that is to be stopped looks at `stop` now and then. */
WARPBELL_API warpbell_error warpbell_queues_get_mailbox(warpbell_queues* queues, uint64_t* address);
/* Sets `stop` in the mailbox: kernels that look at it finish what is in flight and return; others go on. It
 * is cleared by the next launch at a time when no run of these queues is open. */
WARPBELL_API warpbell_error warpbell_queues_stop(warpbell_queues* queues);

/* ---- memory ---- */

typedef struct warpbell_buffer warpbell_buffer;

/* At least `bytes` zeroed bytes that the SSD, kernels and the host reach. */
WARPBELL_API warpbell_error warpbell_buffer_alloc(warpbell_queues* queues, size_t bytes,
                                                  warpbell_buffer** buffer);
/* Memory of the caller's; its contents stay. It begins on a page of 4096 bytes and has whole pages, all of
 * them readable and writable, and neither moves nor goes away until the buffer was closed. Memory that is not
 * mapped, or read-only, is WARPBELL_ERROR_INVALID. */
WARPBELL_API warpbell_error warpbell_buffer_register(warpbell_queues* queues, void* memory, size_t bytes,
                                                     warpbell_buffer** buffer);
/* The same of GPU memory that the caller has: from cudaMalloc, of a tensor, or mapped by cuMemMap. It lies in
 * the memory of the GPU that kernels of the queues run on, inside one allocation, and the SSD was opened with
 * data "hbm" of that GPU. `address` and `bytes` are multiples of 65536. Anything else, host memory or another
 * GPU's among it, is WARPBELL_ERROR_INVALID; memory that the driver does not share with other devices is an
 * error that says so. It stays allocated until the buffer was closed. The host has no pointer to it. */
WARPBELL_API warpbell_error warpbell_buffer_register_device(warpbell_queues* queues, uint64_t address,
                                                            size_t bytes, warpbell_buffer** buffer);
/* Unmaps it. Busy while a run of its queues is open, or a command on them has no completion yet (it timed
 * out, or its kernel did not wait for it): that may use the buffer. Then it goes with the queues. */
WARPBELL_API warpbell_error warpbell_buffer_close(warpbell_buffer* buffer);
/* The kernel argument that names it: `data` is an address of the target's. Valid until the buffer is closed.
 */
WARPBELL_API warpbell_error warpbell_buffer_get_ref(warpbell_buffer* buffer, warpbell_buffer_ref* ref);
/* Where the host finds it, and its length. Plain memory: read what a kernel wrote after its run has ended. */
WARPBELL_API warpbell_error warpbell_buffer_get_host(warpbell_buffer* buffer, void** memory, size_t* bytes);

/* ---- leases ---- */

typedef struct warpbell_lease warpbell_lease;

/* What a kernel may do with queues. The device library refuses the rest before it is submitted: a safety net
 * for kernels that are wrong, and no wall against hostile ones (docs/volumes.md). */
typedef struct warpbell_lease_options {
    uint32_t api_version, size;
    uint64_t first_lba;   /* blocks [first_lba, first_lba + blocks), */
    uint64_t blocks;      /* 0: all that the giver has; first_lba is 0 then */
    uint32_t read_only;   /* 1: nothing that changes blocks */
    uint32_t first_queue; /* queues [first_queue, first_queue + queues) of the attachment, */
    uint32_t queues;      /* 0: all that the giver has; first_queue is 0 then */
    uint32_t pad0;
    warpbell_buffer* buffer; /* the only one that commands move data to and from; NULL: any */
} warpbell_lease_options;
#define WARPBELL_LEASE_OPTIONS_INIT WARPBELL_INIT(warpbell_lease_options)

/* A lease of a part of what queues have. Kernels that run at the same time need queues of their own. */
WARPBELL_API warpbell_error warpbell_queues_lease(warpbell_queues* queues,
                                                  const warpbell_lease_options* options,
                                                  warpbell_lease** lease);
/* A lease of a part of what a lease has: never of more. */
WARPBELL_API warpbell_error warpbell_lease_narrow(warpbell_lease* lease,
                                                  const warpbell_lease_options* options,
                                                  warpbell_lease** narrower);
/* The kernel argument in place of warpbell_queues_get_namespace_ref. Valid until the queues are closed. */
WARPBELL_API warpbell_error warpbell_lease_get_namespace_ref(warpbell_lease* lease,
                                                             warpbell_namespace_ref* ref);
/* Leases go with their queues; the buffer of one can be closed when the lease, and those that it was narrowed
 * to, are. Nothing is taken back from a kernel that runs. */
WARPBELL_API warpbell_error warpbell_lease_close(warpbell_lease* lease);

/* ---- kernels ---- */

typedef struct warpbell_program warpbell_program;
typedef struct warpbell_run warpbell_run;

typedef struct warpbell_compile_options {
    uint32_t api_version, size;
    const char* const* definitions; /* NULL-terminated array of "NAME" or "NAME=VALUE"; NULL: none */
    const char* cache;              /* folder for results; NULL: the default. Since version 4 */
} warpbell_compile_options;
#define WARPBELL_COMPILE_OPTIONS_INIT WARPBELL_INIT(warpbell_compile_options)

/* Compiles CUDA source that includes <warpbell/warpbell.cuh>, for "cpu" (the machine's C++ compiler),
 * "cuda:N" or "ptx" (NVRTC). `name` stands in messages. NULL as target: "cpu". Results are kept in
 * $WARPBELL_CACHE_DIR, or in
 * ~/.cache/warpbell. Waits for the compiler, the first time. The source runs with this program's rights. */
WARPBELL_API warpbell_error warpbell_program_compile(const char* target, const char* name, const char* source,
                                                     const warpbell_compile_options* options,
                                                     warpbell_program** program);
/* The same for the text of a file. */
WARPBELL_API warpbell_error warpbell_program_compile_file(const char* target, const char* path,
                                                          const warpbell_compile_options* options,
                                                          warpbell_program** program);
/* Kernels that were compiled before: a cubin or PTX for "cuda:N", PTX for "ptx", a shared object of this
 * version of the library for "cpu", whose initialisers run now. Since version 6. */
WARPBELL_API warpbell_error warpbell_program_load(const char* target, const char* path,
                                                  warpbell_program** program);
/* Its runs go on. */
WARPBELL_API warpbell_error warpbell_program_close(warpbell_program* program);

typedef struct warpbell_launch_options {
    uint32_t api_version, size;
    uint32_t grid;         /* blocks; 0: 1 */
    uint32_t block;        /* threads of a block, 1 to 256; 0: 32 */
    uint32_t shared_bytes; /* dynamic shared memory of a block, at most 227 KiB (232,448), on any target */
    uint32_t cpu_threads;  /* target "cpu": threads that run blocks, at most 1024; 0: as many as CPUs */
    uint32_t cooperative;  /* not 0: all blocks are there at the same time, as blocks must that wait for each
                              other; a grid for which there is no room is refused */
} warpbell_launch_options;
#define WARPBELL_LAUNCH_OPTIONS_INIT WARPBELL_INIT(warpbell_launch_options)

/* Starts WARPBELL_KERNEL(kernel, ...) with a copy of the argument struct at `args`, whose size must be that
 * of the kernel's. Program and queues are of one target. */
WARPBELL_API warpbell_error warpbell_launch(warpbell_program* program, const char* kernel,
                                            warpbell_queues* queues, const void* args, size_t args_bytes,
                                            const warpbell_launch_options* options, warpbell_run** run);
/* Waits for the end, at most `timeout_ns` (0: looks once; UINT64_MAX: until the end). WARPBELL_OK: the kernel
 * ended; WARPBELL_ERROR_TIMEOUT: it still runs; others: how it failed, again with every call. What the kernel
 * wrote is there for the host after WARPBELL_OK. */
WARPBELL_API warpbell_error warpbell_run_wait(warpbell_run* run, uint64_t timeout_ns);
/* Busy until the kernel has ended: wait first. A kernel that never ends cannot be removed but with its
 * process. */
WARPBELL_API warpbell_error warpbell_run_close(warpbell_run* run);

#ifdef __cplusplus
}
#endif

#endif
