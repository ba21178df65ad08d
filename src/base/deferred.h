/* SPDX-License-Identifier: MIT */
/*
 * Deferred work: work that a thread finds under a lock and does when it holds no lock: at the end
 * of a post, after a poll, before a sleep, and when a call gives its reference on a NIC handle
 * back.
 */
#ifndef VIPL_BASE_DEFERRED_H
#define VIPL_BASE_DEFERRED_H

#include <stddef.h>

#include "os/os.h"

struct vipl_deferred {
    /* used by the thread that defers the work, until it runs */
    struct vipl_deferred *next;
    void (*run)(struct vipl_deferred *work); /* constant; may defer more work */
};

/* The list of this thread, the oldest work first. vipl_deferred_last is valid only if
 * vipl_deferred_first is not NULL. */
extern _Thread_local struct vipl_deferred *vipl_deferred_first VIPL_FAST_THREAD_LOCAL;
extern _Thread_local struct vipl_deferred *vipl_deferred_last VIPL_FAST_THREAD_LOCAL;

/* Puts work, which is on no list, on the list of this thread. */
static inline void vipl_defer(struct vipl_deferred *work)
{
    work->next = NULL;
    if (vipl_deferred_first == NULL) {
        vipl_deferred_first = work;
    } else {
        vipl_deferred_last->next = work;
    }
    vipl_deferred_last = work;
}

void vipl_deferred_run_all(void);
/* Does the deferred work of this thread, which holds no lock. The thread is not cancelled
 * meanwhile. */
static inline void vipl_deferred_run(void)
{
    if (vipl_deferred_first != NULL) {
        vipl_deferred_run_all();
    }
}

#endif
