/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * fio's engine over a library that fails when it is told to: no I/O that was refused is lost to a poll that
 * fails. scripts/lib/check-fio builds it against fio's headers, and runs it. The linker drops what is not
 * called here. */
#include "../../examples/fio/engine.c"

#include <assert.h>
#include <stdio.h>

static warpbell_error polled, submitted;
static uint32_t completed;

warpbell_error warpbell_io_submit(warpbell_io_queue* queue, const warpbell_io_request* requests,
                                  uint32_t count, uint32_t* taken) {
    (void)queue, (void)requests;
    *taken = submitted == WARPBELL_OK ? count : 0;
    return submitted;
}

warpbell_error warpbell_io_poll(warpbell_io_queue* queue, uint32_t least, uint32_t most, uint64_t timeout_ns,
                                warpbell_io_completion* completions, uint32_t* count) {
    (void)queue, (void)timeout_ns, (void)completions;
    assert(least <= most);
    *count = polled == WARPBELL_OK ? completed : 0;
    return polled;
}

void complain(const struct thread_data* td, const char* what) { (void)td, (void)what; }
void io_u_mark_submit(struct thread_data* td, unsigned int count) { (void)td, (void)count; }
void io_u_queued(struct thread_data* td, struct io_u* unit) { (void)td, (void)unit; }
void fio_gettime(struct timespec* now, void* caller) { (void)caller, *now = (struct timespec){0, 0}; }

int main(void) {
    static struct thread_data td;
    static struct io_u units[3];
    struct engine_data* data = make_data(8);
    const struct timespec at_once = {0, 0};
    unsigned int i;
    assert(data != NULL);
    td.io_ops_data = data;
    td.o.iodepth = 8;
    data->block = 512;
    for (i = 0; i < 3; ++i) {
        units[i].ddir = DDIR_READ;
        units[i].offset = 512 * i;
        units[i].xfer_buflen = 512;
        assert(engine_queue(&td, &units[i]) == FIO_Q_QUEUED);
    }
    submitted = WARPBELL_ERROR_REFUSED;
    assert(engine_commit(&td) == 0 && data->refusals == 3 && data->in_flight == 0);

    /* fio gets nothing of a call that fails: what was refused is still there for the next. */
    polled = WARPBELL_ERROR_FAILED;
    assert(engine_getevents(&td, 1, 2, &at_once) == -EIO && data->refusals == 3);

    /* The first two in their order, then the last. A poll that runs out of time is no failure. */
    polled = WARPBELL_ERROR_TIMEOUT;
    assert(engine_getevents(&td, 1, 2, &at_once) == 2 && data->refusals == 1);
    assert(engine_event(&td, 0) == &units[0] && engine_event(&td, 1) == &units[1]);
    assert(units[0].error == EPERM && units[1].error == EPERM);
    polled = WARPBELL_OK;
    assert(engine_getevents(&td, 0, 8, NULL) == 1 && engine_event(&td, 0) == &units[2]);
    assert(data->refusals == 0 && units[2].error == EPERM);
    assert(engine_getevents(&td, 0, 8, NULL) == 0);
    puts("no refused I/O is lost to a poll that fails");
    return 0;
}
