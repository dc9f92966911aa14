/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * libwarpbell-fio.so: fio's I/O over Warpbell's host queues, as `ioengine=external:PATH` (docs/fio.md).
 *
 * This text is under the MIT licence, as Warpbell is. It includes headers of fio, which are under the GNU
 * General Public License, version 2 only: who passes on what is built of both does so under that licence.
 *
 * A job has one SSD, and each of its threads a queue of its own. SSDs are opened once and shared by all jobs
 * of the process, which has them until its end: what one job wrote to soft:size=1g another reads. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ssds.h"
#include <optgroup.h>

/* Statuses of NVMe commands as warpbell_io_completion has them: type 10:8, code 7:0. */
#define STATUS_TYPE_AND_CODE 0x7ffu
#define STATUS_CAPACITY_EXCEEDED 0x081u
#define STATUS_NAMESPACE_WRITE_PROTECTED 0x020u
#define STATUS_READ_ONLY_RANGE 0x182u
#define STATUS_TIMED_OUT (WARPBELL_STATUS_LIBRARY | WARPBELL_STATUS_TIMED_OUT)

struct engine_options {
    void* pad; /* fio takes an option at offset 0 for none */
    char* device;
    char* allow_write;
    unsigned int nsid;
};

static struct fio_option options[] = {
    {
        .name = "device",
        .lname = "SSD",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct engine_options, device),
        .help = "Name of the SSD, in place of filename, without \\ before colons",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "allow_write",
        .lname = "SSD that may be written",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct engine_options, allow_write),
        .help = "Path of its file, its serial number, PCI address or socket; soft:size=.. needs none",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "nsid",
        .lname = "Namespace",
        .type = FIO_OPT_INT,
        .off1 = offsetof(struct engine_options, nsid),
        .def = "0",
        .help = "Namespace of the SSD; 0: the first that can be used",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {.name = NULL},
};

/* ---- jobs: what is checked before they run ---- */

static const char* device_of(const struct thread_data* td) {
    const struct engine_options* chosen = td->eo;
    return chosen->device != NULL ? chosen->device : td->files[0]->file_name;
}

static warpbell_ssd* ssd_of(struct thread_data* td) {
    const struct engine_options* chosen = td->eo;
    return get_ssd(td, device_of(td), chosen->allow_write);
}

/* The namespace of the job's, by its identifier. */
static bool get_namespace(struct thread_data* td, warpbell_ssd* ssd, warpbell_namespace_info* space) {
    const struct engine_options* chosen = td->eo;
    warpbell_ssd_info info = WARPBELL_SSD_INFO_INIT;
    uint32_t index;
    if (warpbell_ssd_identify(ssd, &info) != WARPBELL_OK) {
        complain(td, device_of(td));
        return false;
    }
    for (index = 0; index < info.namespaces; ++index) {
        if (warpbell_ssd_namespace(ssd, index, space) != WARPBELL_OK) {
            complain(td, device_of(td));
            return false;
        }
        if (chosen->nsid == 0 || space->nsid == chosen->nsid) {
            return true;
        }
    }
    log_err("warpbell: job %s: nsid %u: %s has %u usable namespaces, and none of that number\n", td->o.name,
            chosen->nsid, device_of(td), info.namespaces);
    return false;
}

static bool check_job(const struct thread_data* td) {
    const struct engine_options* chosen = td->eo;
    const char* wrong = NULL;
    if (!td->o.use_thread) {
        wrong = "thread=0: a child of fork() cannot use an SSD of its parent: set thread=1";
    } else if (td->o.nr_files != 1) {
        wrong = "more than one file: a job has one SSD (fio parts filename at a colon: use device=)";
    } else if (chosen->device != NULL && td->o.filename != NULL) {
        wrong = "filename and device: both name the SSD: leave one out";
    }
    if (wrong != NULL) {
        log_err("warpbell: job %s: %s\n", td->o.name, wrong);
    }
    return wrong == NULL;
}

static bool check_block_size(const struct thread_data* td, enum fio_ddir ddir, bool used, uint32_t block) {
    static const char* const names[] = {"reads", "writes", "trims"};
    const unsigned long long sizes[] = {td->o.min_bs[ddir], td->o.ba[ddir]};
    size_t i;
    for (i = 0; used && i < 2; ++i) {
        if (sizes[i] % block != 0) {
            log_err("warpbell: job %s: %s %llu of %s: must be a multiple of the block size of %s, %u bytes\n",
                    td->o.name, i == 0 ? "bs" : "blockalign", sizes[i], names[ddir], device_of(td), block);
            return false;
        }
    }
    return true;
}

static bool check_access(const struct thread_data* td, const warpbell_namespace_info* space) {
    if ((td_write(td) || td_trim(td)) && !space->writable) {
        log_err("warpbell: job %s: it writes to %s, which is not permitted: name the path of its file, its "
                "serial number or "
                "its PCI address in allow_write\n",
                td->o.name, device_of(td));
        return false;
    }
    return check_block_size(td, DDIR_READ, td_read(td), space->block_bytes) &&
           check_block_size(td, DDIR_WRITE, td_write(td), space->block_bytes) &&
           check_block_size(td, DDIR_TRIM, td_trim(td), space->block_bytes);
}

static struct ioengine_ops ops;

static int engine_setup(struct thread_data* td) {
    warpbell_namespace_info space = WARPBELL_NAMESPACE_INFO_INIT;
    struct fio_file* file;
    warpbell_ssd* ssd;
    if (td->io_ops != &ops) {
        log_err(
            "warpbell: the structs of this fio are not those of the source that the engine was built with\n");
        return 1;
    }
    if (!check_job(td) || (ssd = ssd_of(td)) == NULL || !get_namespace(td, ssd, &space) ||
        !check_access(td, &space)) {
        return 1;
    }
    file = td->files[0];
    file->filetype = FIO_TYPE_BLOCK;
    file->real_file_size = space.blocks * space.block_bytes;
    fio_file_set_size_known(file);
    return 0;
}

/* ---- a thread's queue ---- */

struct engine_data {
    warpbell_io_queue* queue;
    warpbell_io_buffer* buffer;
    uint32_t block;
    /* Requests that were queued, and not committed. */
    warpbell_io_request* requests;
    unsigned int queued;
    /* Requests that were submitted, and not reaped. */
    unsigned int in_flight;
    /* Units that were refused at once: they are reaped first. */
    struct io_u** refused;
    unsigned int refusals;
    /* What the last getevents has found. */
    warpbell_io_completion* completions;
    struct io_u** events;
    bool complained;
};

static void free_data(struct engine_data* data) {
    free(data->requests);
    free(data->refused);
    free(data->completions);
    free(data->events);
    free(data);
}

static struct engine_data* make_data(unsigned int depth) {
    struct engine_data* data = calloc(1, sizeof(*data));
    if (data == NULL) {
        return NULL;
    }
    data->requests = calloc(depth, sizeof(*data->requests));
    data->refused = calloc(depth, sizeof(*data->refused));
    data->completions = calloc(depth, sizeof(*data->completions));
    data->events = calloc(depth, sizeof(*data->events));
    if (data->requests == NULL || data->refused == NULL || data->completions == NULL ||
        data->events == NULL) {
        free_data(data);
        return NULL;
    }
    return data;
}

static int engine_init(struct thread_data* td) {
    const struct engine_options* chosen = td->eo;
    warpbell_namespace_info space = WARPBELL_NAMESPACE_INFO_INIT;
    warpbell_io_queue_options wanted = WARPBELL_IO_QUEUE_OPTIONS_INIT;
    warpbell_ssd* ssd = check_job(td) ? ssd_of(td) : NULL;
    struct engine_data* data;
    if (ssd == NULL || !get_namespace(td, ssd, &space)) {
        return 1;
    }
    data = make_data(td->o.iodepth);
    if (data == NULL) {
        log_err("warpbell: job %s: no memory for iodepth %u\n", td->o.name, td->o.iodepth);
        return 1;
    }
    data->block = space.block_bytes;
    wanted.nsid = chosen->nsid;
    wanted.depth = td->o.iodepth;
    if (warpbell_io_queue_create(ssd, &wanted, &data->queue) != WARPBELL_OK) {
        complain(td, device_of(td));
        free_data(data);
        return 1;
    }
    td->io_ops_data = data;
    return 0;
}

/* A job that ends early leaves requests behind, and their memory is the SSD's until they have ended. */
static void drain(struct thread_data* td, struct engine_data* data) {
    uint32_t count;
    while (data->in_flight > 0) {
        if (warpbell_io_poll(data->queue, data->in_flight, data->in_flight, UINT64_MAX, data->completions,
                             &count) != WARPBELL_OK) {
            complain(td, "end of the job");
            return;
        }
        data->in_flight -= count;
    }
}

static void engine_cleanup(struct thread_data* td) {
    struct engine_data* data = td->io_ops_data;
    if (data == NULL) {
        return;
    }
    drain(td, data);
    if (warpbell_io_queue_close(data->queue) != WARPBELL_OK) {
        complain(td, "end of its queue");
    }
    free_data(data);
    td->io_ops_data = NULL;
}

/* ---- memory: registered once ---- */

static int engine_iomem_alloc(struct thread_data* td, size_t bytes) {
    struct engine_data* data = td->io_ops_data;
    warpbell_ssd* ssd = ssd_of(td);
    void* memory;
    if (ssd == NULL) {
        return 1;
    }
    if (warpbell_io_buffer_alloc(ssd, bytes, &memory, &data->buffer) != WARPBELL_OK) {
        complain(td, "memory of its I/O");
        return 1;
    }
    td->orig_buffer = memory;
    return 0;
}

static void engine_iomem_free(struct thread_data* td) {
    struct engine_data* data = td->io_ops_data;
    if (data == NULL || data->buffer == NULL) {
        return;
    }
    drain(td, data);
    if (warpbell_io_buffer_close(data->buffer) != WARPBELL_OK) {
        complain(td, "memory of its I/O");
    }
    data->buffer = NULL;
    td->orig_buffer = NULL;
}

/* ---- I/O ---- */

static bool make_request(const struct engine_data* data, struct io_u* unit, warpbell_io_request* request) {
    memset(request, 0, sizeof(*request));
    request->tag = (uintptr_t)unit;
    if (unit->ddir == DDIR_SYNC || unit->ddir == DDIR_DATASYNC) {
        request->op = WARPBELL_IO_FLUSH;
        return true;
    }
    if (!ddir_rw(unit->ddir) || unit->offset % data->block != 0) {
        return false;
    }
    request->lba = unit->offset / data->block;
    request->bytes = unit->xfer_buflen;
    if (unit->ddir == DDIR_TRIM) {
        request->op = WARPBELL_IO_TRIM;
        return true;
    }
    request->op = unit->ddir == DDIR_READ ? WARPBELL_IO_READ : WARPBELL_IO_WRITE;
    request->data = unit->xfer_buf;
    return true;
}

static enum fio_q_status engine_queue(struct thread_data* td, struct io_u* unit) {
    struct engine_data* data = td->io_ops_data;
    if (data->queued + data->in_flight + data->refusals >= td->o.iodepth) {
        return FIO_Q_BUSY;
    }
    if (!make_request(data, unit, &data->requests[data->queued])) {
        unit->error = EINVAL;
        return FIO_Q_COMPLETED;
    }
    ++data->queued;
    return FIO_Q_QUEUED;
}

/* fio's clock of an I/O begins before the SSD knows of it. */
static void note_issue(struct thread_data* td, const struct engine_data* data) {
    struct timespec now;
    unsigned int i;
    if (!fio_fill_issue_time(td)) {
        return;
    }
    fio_gettime(&now, NULL);
    for (i = 0; i < data->queued; ++i) {
        struct io_u* unit = (struct io_u*)(uintptr_t)data->requests[i].tag;
        unit->issue_time = now;
        io_u_queued(td, unit);
    }
}

/* Why the library refused a request. */
static int errno_of(warpbell_error error) {
    switch (error) {
    case WARPBELL_ERROR_INVALID:
        return EINVAL;
    case WARPBELL_ERROR_REFUSED:
        return EPERM;
    default:
        return EIO;
    }
}

static void refuse(struct thread_data* td, struct engine_data* data, uint64_t tag, warpbell_error error) {
    struct io_u* unit = (struct io_u*)(uintptr_t)tag;
    if (!data->complained) {
        complain(td, "request");
        data->complained = true;
    }
    unit->error = errno_of(error);
    unit->engine_data = NULL;
    data->refused[data->refusals++] = unit;
}

static int engine_commit(struct thread_data* td) {
    struct engine_data* data = td->io_ops_data;
    unsigned int next = 0;
    note_issue(td, data);
    while (next < data->queued) {
        uint32_t submitted;
        warpbell_error error =
            warpbell_io_submit(data->queue, data->requests + next, data->queued - next, &submitted);
        io_u_mark_submit(td, submitted);
        data->in_flight += submitted;
        next += submitted;
        if (error != WARPBELL_OK) {
            refuse(td, data, data->requests[next++].tag, error);
        }
    }
    data->queued = 0;
    return 0;
}

/* A status as an errno that fio counts: of its own accord it goes on after EIO alone. */
static int errno_of_status(uint32_t status) {
    if (status == 0) {
        return 0;
    }
    if (status == STATUS_TIMED_OUT) {
        return ETIMEDOUT;
    }
    if ((status & WARPBELL_STATUS_LIBRARY) != 0) {
        return EIO;
    }
    switch (status & STATUS_TYPE_AND_CODE) {
    case STATUS_CAPACITY_EXCEEDED:
        return ENOSPC;
    case STATUS_NAMESPACE_WRITE_PROTECTED:
    case STATUS_READ_ONLY_RANGE:
        return EROFS;
    default:
        return EIO;
    }
}

static void take_refused(struct engine_data* data, unsigned int taken) {
    memcpy(data->events, data->refused, taken * sizeof(*data->events));
    data->refusals -= taken;
    memmove(data->refused, data->refused + taken, data->refusals * sizeof(*data->refused));
}

static uint64_t nanoseconds(const struct timespec* limit) {
    return limit == NULL ? UINT64_MAX : (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
}

static int engine_getevents(struct thread_data* td, unsigned int min, unsigned int max,
                            const struct timespec* limit) {
    struct engine_data* data = td->io_ops_data;
    const unsigned int first = data->refusals < max ? data->refusals : max;
    const unsigned int least = min > first ? min - first : 0;
    uint32_t count, i;
    warpbell_error error = warpbell_io_poll(data->queue, least, max - first,
                                            least > 0 ? nanoseconds(limit) : 0, data->completions, &count);
    if (error != WARPBELL_OK && error != WARPBELL_ERROR_TIMEOUT) {
        complain(td, "poll");
        return -EIO;
    }
    /* Not before: fio gets nothing of a call that fails. */
    take_refused(data, first);
    for (i = 0; i < count; ++i) {
        struct io_u* unit = (struct io_u*)(uintptr_t)data->completions[i].tag;
        unit->error = errno_of_status(data->completions[i].status);
        unit->engine_data = (void*)(uintptr_t)data->completions[i].status;
        data->events[first + i] = unit;
    }
    data->in_flight -= count;
    return (int)(first + count);
}

static struct io_u* engine_event(struct thread_data* td, int event) {
    const struct engine_data* data = td->io_ops_data;
    return data->events[event];
}

static char* engine_errdetails(struct io_u* unit) {
    const uint32_t status = (uint32_t)(uintptr_t)unit->engine_data;
    return strdup(status != 0 ? warpbell_status_text(status) : warpbell_error_message());
}

/* There is nothing to open: the SSD is. */
static int engine_open_file(struct thread_data* td, struct fio_file* file) {
    (void)td, (void)file;
    return 0;
}

static int engine_close_file(struct thread_data* td, struct fio_file* file) {
    (void)td, (void)file;
    return 0;
}

static struct ioengine_ops ops = {
    .name = "warpbell",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_RAWIO | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_MEMALIGN |
             FIO_ASYNCIO_SETS_ISSUE_TIME,
    .setup = engine_setup,
    .init = engine_init,
    .queue = engine_queue,
    .commit = engine_commit,
    .getevents = engine_getevents,
    .event = engine_event,
    .errdetails = engine_errdetails,
    .cleanup = engine_cleanup,
    .open_file = engine_open_file,
    .close_file = engine_close_file,
    .iomem_alloc = engine_iomem_alloc,
    .iomem_free = engine_iomem_free,
    .option_struct_size = sizeof(struct engine_options),
    .options = options,
};

/* fio asks for the engine by this name. Structs of another fio may be laid out otherwise although its engines
 * have the same version. */
__attribute__((visibility("default"))) void get_ioengine(struct ioengine_ops** engine);
void get_ioengine(struct ioengine_ops** engine) {
    if (strcmp(fio_version_string, WARPBELL_FIO_VERSION) != 0) {
        log_err("warpbell: this engine was built for %s (engines of version %d), and this is %s: build it "
                "again with the "
                "source of that (scripts/build-fio-engine)\n",
                WARPBELL_FIO_VERSION, FIO_IOOPS_VERSION, fio_version_string);
        return;
    }
    *engine = &ops;
}
