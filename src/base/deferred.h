/* SPDX-License-Identifier: MIT */
/*
 * Work that a thread finds under a lock and does where it holds none: at the end of a post, after a poll, before a sleep,
 * and when a call lets its NIC handle go.
 */
#ifndef VIPL_BASE_DEFERRED_H
#define VIPL_BASE_DEFERRED_H

#include <stddef.h>

#include "os/os.h"

struct vipl_deferred {
    struct vipl_deferred *next;              /* the thread's that deferred it, until it runs */
    void (*run)(struct vipl_deferred *work); /* constant; may defer more */
};

/* This thread's, the oldest first: however much is found meanwhile, each has its turn. The last one counts only if there is a first. */
extern _Thread_local struct vipl_deferred *vipl_deferred_first VIPL_FAST_THREAD_LOCAL;
extern _Thread_local struct vipl_deferred *vipl_deferred_last VIPL_FAST_THREAD_LOCAL;

/* The work is on no list. */
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
/* The thread holds no lock. It is not cancelled meanwhile. */
static inline void vipl_deferred_run(void)
{
    if (vipl_deferred_first != NULL) {
        vipl_deferred_run_all();
    }
}

#endif
