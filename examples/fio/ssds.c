/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The SSDs of all jobs: see engine.c, also for the licence. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ssds.h"

void complain(const struct thread_data* td, const char* what) {
    log_err("warpbell: job %s: %s: %s\n", td->o.name, what, warpbell_error_message());
}

struct shared_ssd {
    char *name, *allow_write;
    warpbell_ssd* ssd;
    struct shared_ssd* next;
};

static pthread_mutex_t ssds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared_ssd* ssds;

static const char* or_none(const char* text) { return text != NULL ? text : ""; }

static struct shared_ssd* open_ssd(struct thread_data* td, const char* name, const char* allow_write) {
    const char* const allowed[] = {allow_write, NULL};
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    struct shared_ssd* made = calloc(1, sizeof(*made));
    chosen.allow_write = allow_write != NULL ? allowed : NULL;
    if (made == NULL) {
        log_err("warpbell: job %s: no memory\n", td->o.name);
        return NULL;
    }
    if (warpbell_ssd_open(name, &chosen, &made->ssd) != WARPBELL_OK) {
        complain(td, name);
        free(made);
        return NULL;
    }
    made->name = strdup(name);
    made->allow_write = strdup(or_none(allow_write));
    made->next = ssds;
    return ssds = made;
}

warpbell_ssd* get_ssd(struct thread_data* td, const char* name, const char* allow_write) {
    struct shared_ssd* found;
    pthread_mutex_lock(&ssds_lock);
    for (found = ssds; found != NULL && strcmp(found->name, name) != 0; found = found->next) {
    }
    if (found == NULL) {
        found = open_ssd(td, name, allow_write);
    } else if (strcmp(found->allow_write, or_none(allow_write)) != 0) {
        log_err("warpbell: job %s: allow_write='%s', but an earlier job has opened %s with allow_write='%s': "
                "put it "
                "into [global]\n",
                td->o.name, or_none(allow_write), name, found->allow_write);
        found = NULL;
    }
    pthread_mutex_unlock(&ssds_lock);
    return found != NULL ? found->ssd : NULL;
}

/* fio is done with the engine: what is cached reaches the SSD. */
__attribute__((destructor)) static void close_ssds(void) {
    while (ssds != NULL) {
        struct shared_ssd* gone = ssds;
        ssds = gone->next;
        if (warpbell_ssd_close(gone->ssd) != WARPBELL_OK) {
            log_err("warpbell: %s: %s\n", gone->name, warpbell_error_message());
        }
        free(gone->name);
        free(gone->allow_write);
        free(gone);
    }
}
