/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The SSDs of all jobs: see engine.c, also for the licence. */
#ifndef WARPBELL_FIO_SSDS_H
#define WARPBELL_FIO_SSDS_H

#include <fio.h>
#include <warpbell/host_io.h>

/* Says in fio's log why the last call for a job failed. */
void complain(const struct thread_data* td, const char* what);

/* The SSD of that name, which is opened if no job has done so. NULL: fio's log says why. */
warpbell_ssd* get_ssd(struct thread_data* td, const char* name, const char* allow_write);

#endif
