/* SPDX-License-Identifier: MIT */
/* Waiting for one stream. */
#include <errno.h>
#include <poll.h>

#include "base/deadline.h"
#include "stream/nic.h"
#include "stream/waiter.h"

static _Thread_local char here; /* its address names the thread */

/* Wakes the thread, unless that thread itself has taken what came. */
static void wake_other(struct vipl_stream_watch *watch)
{
    struct vipl_stream_waiter *waiter = VIPL_CONTAINER(watch, struct vipl_stream_waiter, watch);
    if (waiter->thread != &here) {
        vipl_waker_signal(&waiter->waker);
    }
}

/* Returns a waiter for the calling thread; NULL: there is no memory or descriptor for one. */
static struct vipl_stream_waiter *begin_wait(struct vipl_stream_nic *nic)
{
    vipl_mutex_lock(&nic->lock);
    struct vipl_list *link = vipl_list_take(&nic->waiters);
    vipl_mutex_unlock(&nic->lock);
    struct vipl_stream_waiter *waiter =
        link != NULL ? VIPL_CONTAINER(link, struct vipl_stream_waiter, link) : vipl_zalloc(sizeof(*waiter));
    if (waiter == NULL) {
        return NULL;
    }
    if (link == NULL) {
        vipl_list_init(&waiter->link);
        waiter->watch.notify = wake_other;
        if (vipl_waker_open(&waiter->waker) != 0) {
            vipl_free(waiter);
            return NULL;
        }
    }
    waiter->thread = &here;
    return waiter;
}

static void end_wait(struct vipl_stream_nic *nic, struct vipl_stream_waiter *waiter)
{
    vipl_mutex_lock(&nic->lock);
    vipl_list_append(&nic->waiters, &waiter->link);
    vipl_mutex_unlock(&nic->lock);
}

void vipl_stream_waiters_free(struct vipl_stream_nic *nic)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(&nic->waiters)) != NULL) {
        struct vipl_stream_waiter *waiter = VIPL_CONTAINER(link, struct vipl_stream_waiter, link);
        vipl_waker_close(&waiter->waker);
        vipl_free(waiter);
    }
}

/* Returns true if one of the wanted events holds. */
static bool holds(struct vipl_stream *stream, unsigned wanted)
{
    return ((vipl_stream_events(stream) ^ VIPL_STREAM_OFFERING) & wanted) != 0;
}

static int wait_with(struct vipl_stream *stream, struct vipl_stream_waiter *waiter, unsigned wanted,
                     uint64_t deadline, const void *mask)
{
    struct vipl_stream_nic *nic = vipl_stream_device(stream);
    struct vipl_signals before;
    unsigned sleeps = 0; /* from the second one on, signals come in sleeps only: none is lost between */
    int rc = 0;
    for (; rc == 0 && !holds(stream, wanted); sleeps++) {
        struct pollfd fd = {.fd = waiter->waker.fd, .events = POLLIN};
        if (sleeps == 1) {
            vipl_signals_keep_out(&before);
        }
        rc = vipl_stream_nic_wait(nic, &fd, 1, vipl_ms_left(deadline),
                                  mask == NULL && sleeps > 0 ? before.set : mask);
        if (rc == VIPL_POLL_OTHERS) {
            vipl_waker_reset(&waiter->waker);
            rc = 0;
        }
    }
    rc = rc == ETIMEDOUT && holds(stream, wanted) ? 0 : rc;
    if (sleeps > 1) {
        vipl_signals_let_in(&before);
    }
    return rc;
}

int vipl_stream_wait(struct vipl_stream *stream, unsigned wanted, uint64_t deadline, const void *mask)
{
    struct vipl_stream_nic *nic = vipl_stream_device(stream);
    struct vipl_stream_waiter *waiter = begin_wait(nic);
    if (waiter == NULL) {
        return ENOMEM;
    }
    vipl_stream_add_watch(stream, &waiter->watch);
    int rc = wait_with(stream, waiter, wanted, deadline, mask);
    vipl_stream_remove_watch(stream, &waiter->watch);
    end_wait(nic, waiter);
    return rc;
}
