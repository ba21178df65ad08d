/* SPDX-License-Identifier: MIT */
/*
 * What a thread needs to sleep, inside src/os/windows. All of it is outside the thread's stack, and
 * a thread waits for an event of its own, never by WaitOnAddress(), for which the system keeps a
 * record on that stack: so a thread that TerminateThread() ends in its sleep leaves nothing that is
 * not there any more, and a thread of the system's pool ends the sleep.
 */
#ifndef VIPL_OS_WINDOWS_SLEEPER_H
#define VIPL_OS_WINDOWS_SLEEPER_H

#include <stddef.h>

#include "os/killed.h"
#include "os/windows/descriptor.h"

struct vipl_sleeper;

/* One thread's sleep for one object. Guarded by vipl_objects. */
struct vipl_sleep {
    struct vipl_sleeper *sleeper;
    struct vipl_object *object; /* with a reference; NULL: there is none */
    struct vipl_sleep *next;    /* of the object */
};

/* A field without a guard is its thread's, or, once that thread has been killed, on_end()'s. */
struct vipl_sleeper {
    struct vipl_waker waker; /* fd -1: the thread has not asked for it */
    DWORD thread_id;         /* a fiber takes its sleeper along to another thread */
    HANDLE thread;
    TP_WAIT *watch; /* the system's pool calls on_end() when the thread has ended */
    HANDLE event;   /* ends the sleep once for each time it is set */
    bool woken;     /* guarded by vipl_objects: the event has been set in this sleep */
    struct vipl_sleep sleeps[VIPL_POLL_OWN];
    unsigned count;            /* of `sleeps` */
    void (*cancelled)(void *); /* ends the call that sleeps; NULL: a sleep that nobody can end */
    void *arg;
    uint32_t asleep; /* atomic: the three above and `sleeps` are complete, pairs with on_end() */
    union {
        char bytes[VIPL_SLEEP_MEMORY];
        max_align_t align;
    } memory;
};

/* The calling thread, which begins, is one of the library's. Such a thread is not watched: the
 * system ends it with the process, while a thread of the pool may still run. */
void vipl_sleeper_is_ours(void);

/* The calling thread's; NULL: there is no memory or no handle for it. */
struct vipl_sleeper *vipl_sleeper_get(void);
/* Hangs the sleeper on the objects of the descriptors, at most VIPL_POLL_OWN, those that are open.
 * vipl_objects is held. */
void vipl_sleeper_hang_on(struct vipl_sleeper *sleeper, const int *fds, unsigned count);
/* Takes the sleeper off all of them. */
void vipl_sleeper_take_off(struct vipl_sleeper *sleeper);

#endif
