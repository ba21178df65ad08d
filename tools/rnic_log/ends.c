/* SPDX-License-Identifier: MIT */
#include "ends.h"

#include <errno.h>
#include <stdlib.h>

#include "os/os_atomic.h"

enum { BEHIND_MS = 1 }; /* until messages that the card has not taken are tried again */

static void is_behind(void *context)
{
    struct end *end = context;

    vipl_store_relaxed(&end->all->is_behind, 1);
    vipl_waker_signal(&end->all->waker);
}

/* --- the thread --- */

static unsigned list_descriptors(struct ends *ends, int *fds)
{
    unsigned count = 1;

    fds[0] = ends->waker.fd;
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        if (ends->ends[fn] != NULL && !rnic_bus_host_is_gone(&ends->ends[fn]->host)) {
            fds[count++] = ends->ends[fn]->host.channel.fd;
        }
    }
    return count;
}

/* A connection on which the user's thread waits handles its messages there. */
static bool serve_all(struct ends *ends)
{
    bool is_one_gone = false;

    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        struct end *end = ends->ends[fn];
        if (end != NULL && !rnic_bus_host_is_gone(&end->host)) {
            rnic_bus_host_progress(&end->host);
            is_one_gone = is_one_gone || rnic_bus_host_is_gone(&end->host);
        }
    }
    return is_one_gone;
}

static void serve(void *context)
{
    struct ends *ends = context;
    int fds[1 + RNIC_CARD_MAX_FUNCTIONS];

    for (;;) {
        pthread_mutex_lock(&ends->lock);
        bool is_over = ends->is_over;
        unsigned count = list_descriptors(ends, fds);
        pthread_mutex_unlock(&ends->lock);
        if (is_over) {
            return;
        }
        bool is_kept = vipl_exchange(&ends->is_behind, 0) != 0;
        (void)vipl_poll(fds, count, is_kept ? BEHIND_MS : -1, NULL);
        vipl_waker_reset(&ends->waker);
        pthread_mutex_lock(&ends->lock);
        bool is_one_gone = serve_all(ends);
        pthread_mutex_unlock(&ends->lock);
        if (is_one_gone) {
            ends->gone(ends->context);
        }
    }
}

/* --- the user's thread --- */

static void put(struct ends *ends, unsigned fn, struct end *end)
{
    pthread_mutex_lock(&ends->lock);
    ends->ends[fn] = end;
    pthread_mutex_unlock(&ends->lock);
    vipl_waker_signal(&ends->waker);
}

int ends_open(struct ends *ends, unsigned fn, const char **why)
{
    struct end *end = calloc(1, sizeof(*end));
    int fd;
    int error = end == NULL ? ENOMEM : vipl_unix_connect(ends->path, &fd);

    *why = NULL;
    if (error == 0) {
        end->all = ends;
        end->fn = fn;
        error = rnic_bus_host_open(&end->host, fd, BUS_PATIENCE_MS, &ends->ops,
                                   end); /* a simulator may be starting */
        *why = end->host.why;
        end->host.patience_ms = ends->wait_ms;
    }
    if (error != 0) {
        free(end);
        return error;
    }
    put(ends, fn, end);
    return 0;
}

void ends_close(struct ends *ends, unsigned fn)
{
    struct end *end = ends->ends[fn];

    if (end != NULL) {
        put(ends, fn, NULL);
        rnic_bus_host_leave(&end->host);
        rnic_bus_host_close(&end->host);
        free(end);
    }
}

int ends_begin(struct ends *ends, const char *path, unsigned wait_ms, const struct rnic_bus_host_ops *ops,
               void (*gone)(void *context), void *context)
{
    *ends = (struct ends){.path = path, .wait_ms = wait_ms, .ops = *ops, .gone = gone, .context = context};
    ends->ops.behind = is_behind;
    int error = vipl_waker_open(&ends->waker);
    if (error != 0) {
        return error;
    }
    (void)pthread_mutex_init(&ends->lock, NULL);
    error = vipl_thread_start(&ends->thread, serve, ends);
    if (error != 0) {
        vipl_waker_close(&ends->waker);
    }
    return error;
}

void ends_end(struct ends *ends)
{
    pthread_mutex_lock(&ends->lock);
    ends->is_over = true;
    pthread_mutex_unlock(&ends->lock);
    vipl_waker_signal(&ends->waker);
    vipl_thread_join(&ends->thread);
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        ends_close(ends, fn);
    }
    vipl_waker_close(&ends->waker);
    (void)pthread_mutex_destroy(&ends->lock);
}
