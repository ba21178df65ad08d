/* SPDX-License-Identifier: MIT */
/* Threads, which block every signal, and the waker that each waiting thread has until it ends. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "os/killed.h"
#include "os/os.h"
#include "os/os_atomic.h"

struct start {
    void (*run)(void *);
    void *arg;
};

static void *thread_main(void *p)
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
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the new thread inherits this mask */
    pthread_t id;
    int rc = vipl_resource_fails(EAGAIN) ? EAGAIN : pthread_create(&id, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        free(start);
        return rc;
    }
    thread->id = (uintptr_t)id;
    return 0;
}

void vipl_yield(void)
{
    (void)sched_yield();
}

void vipl_signals_keep_out(struct vipl_signals *before)
{
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    _Static_assert(sizeof(sigset_t) <= sizeof(before->set), "set holds a sigset_t");
    sigset_t most;
    sigfillset(&most);
    for (unsigned i = 0; i < sizeof(raised) / sizeof(raised[0]); i++) {
        sigdelset(&most, raised[i]);
    }
    pthread_sigmask(SIG_BLOCK, &most, (sigset_t *)(void *)before->set);
}

void vipl_signals_let_in(const struct vipl_signals *before)
{
    pthread_sigmask(SIG_SETMASK, (const sigset_t *)(const void *)before->set, NULL);
}

void vipl_thread_join(struct vipl_thread *thread)
{
    pthread_join((pthread_t)thread->id, NULL);
}

void vipl_thread_detach(struct vipl_thread *thread)
{
    pthread_detach((pthread_t)thread->id);
}

void vipl_thread_cancel(struct vipl_thread *thread)
{
    pthread_cancel((pthread_t)thread->id);
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

/* --- wakers, one per thread, closed when the thread ends --- */

static void *waker_key; /* atomic: a pthread_key_t, counted from 1; NULL: not made yet */

static void waker_end(void *p)
{
    int cancel = vipl_cancel_off(); /* a thread that ends by itself may still be cancelled here */
    vipl_waker_close(p);
    free(p);
    vipl_cancel_restore(cancel);
}

/* Does not use pthread_once(): a fork may come while another thread is in it, and not every C
 * library resets its state in the child. */
static int get_waker_key(pthread_key_t *key)
{
    void *known = vipl_load_ptr(&waker_key);
    int error = 0;
    if (known == NULL) {
        error = pthread_key_create(key, waker_end);
        void *mine = (void *)((uintptr_t)*key + 1);
        if (error == 0 && !vipl_compare_exchange_ptr(&waker_key, NULL, mine)) {
            pthread_key_delete(*key); /* another thread made it */
        }
        known = vipl_load_ptr(&waker_key);
    }
    *key = (pthread_key_t)((uintptr_t)known - 1);
    return error;
}

struct vipl_waker *vipl_thread_waker(void)
{
    pthread_key_t key = 0;
    if (get_waker_key(&key) != 0) {
        return NULL;
    }
    struct vipl_waker *waker = pthread_getspecific(key);
    if (waker != NULL && waker->generation == vipl_fork_generation()) {
        return waker;
    }
    if (waker != NULL) { /* inherited by a fork, which closed the descriptor */
        waker_end(waker);
        pthread_setspecific(key, NULL);
    }
    waker = malloc(sizeof(*waker));
    if (waker == NULL) {
        return NULL;
    }
    if (vipl_waker_open(waker) != 0) {
        free(waker);
        return NULL;
    }
    if (pthread_setspecific(key, waker) != 0) {
        waker_end(waker);
        return NULL;
    }
    return waker;
}

void *vipl_sleep_memory(void *on_stack)
{
    return on_stack;
}
