/* SPDX-License-Identifier: MIT */
/* Threads that block every signal, and the waker each waiting thread owns until it ends. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "os/os.h"

struct start {
    void (*run)(void *);
    void *arg;
};

static void *entry(void *p)
{
    struct start start = *(struct start *)p;
    free(p);
    start.run(start.arg);
    return NULL;
}

int vipl_thread_start(struct vipl_thread *thread, void (*run)(void *), void *arg)
{
    struct start *start = malloc(sizeof(*start));
    if (start == NULL) {
        return ENOMEM;
    }
    start->run = run;
    start->arg = arg;
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the new thread inherits it */
    pthread_t id;
    int rc = pthread_create(&id, NULL, entry, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        free(start);
        return rc;
    }
    thread->id = (uintptr_t)id;
    return 0;
}

void vipl_thread_join(struct vipl_thread *thread)
{
    pthread_join((pthread_t)thread->id, NULL);
}

void vipl_thread_detach(struct vipl_thread *thread)
{
    pthread_detach((pthread_t)thread->id);
}

bool vipl_thread_is_self(const struct vipl_thread *thread)
{
    return pthread_equal((pthread_t)thread->id, pthread_self()) != 0;
}

int vipl_cancel_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void vipl_cancel_restore(int before)
{
    if (before != PTHREAD_CANCEL_DISABLE) {
        pthread_setcancelstate(before, NULL);
    }
}

/* --- wakers, one a thread, closed when the thread ends --- */

static pthread_key_t waker_key;
static pthread_once_t waker_once = PTHREAD_ONCE_INIT;
static int waker_key_error;

static void waker_end(void *p)
{
    int cancel = vipl_cancel_off(); /* a thread that ends by itself may still be cancelled here */
    vipl_waker_close(p);
    free(p);
    vipl_cancel_restore(cancel);
}

static void waker_key_make(void)
{
    waker_key_error = pthread_key_create(&waker_key, waker_end);
}

struct vipl_waker *vipl_thread_waker(void)
{
    pthread_once(&waker_once, waker_key_make);
    if (waker_key_error != 0) {
        return NULL;
    }
    struct vipl_waker *waker = pthread_getspecific(waker_key);
    if (waker != NULL && waker->generation == vipl_fork_generation()) {
        return waker;
    }
    if (waker != NULL) { /* inherited by fork: its descriptor is shared with the parent */
        waker_end(waker);
        pthread_setspecific(waker_key, NULL);
    }
    waker = malloc(sizeof(*waker));
    if (waker == NULL) {
        return NULL;
    }
    if (vipl_waker_open(waker) != 0 || pthread_setspecific(waker_key, waker) != 0) {
        free(waker);
        return NULL;
    }
    return waker;
}
