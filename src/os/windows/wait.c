/* SPDX-License-Identifier: MIT */
/*
 * Wakers, and sleeping for descriptors. A thread that sleeps hangs a word of its own on each
 * object, and waits for that word. No handler of the program interrupts a sleep, and no descriptor
 * of the program is watched.
 */
#include <errno.h>
#include <limits.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/windows/pollset.h"

/* --- wakers --- */

static void end_waker(struct vipl_object *object)
{
    vipl_free(object);
}

int vipl_waker_open(struct vipl_waker *waker)
{
    struct vipl_object *object = vipl_zalloc(sizeof(*object));
    if (object == NULL) {
        return ENOMEM;
    }
    int error = vipl_object_add(object, end_waker, &waker->fd);
    if (error != 0) {
        vipl_free(object);
        return error;
    }
    waker->write_fd = waker->fd;
    waker->generation = vipl_fork_generation();
    waker->cancel = NULL;
    return 0;
}

void vipl_waker_close(struct vipl_waker *waker)
{
    vipl_fd_close(waker->fd);
}

static void mark_waker(const struct vipl_waker *waker, bool ready)
{
    struct vipl_object *object = vipl_object_get(waker->fd, end_waker);
    if (object != NULL) {
        vipl_object_mark(object, ready);
        vipl_object_put(object);
    }
}

void vipl_waker_signal(struct vipl_waker *waker)
{
    mark_waker(waker, true);
}

void vipl_waker_reset(struct vipl_waker *waker)
{
    mark_waker(waker, false);
}

/* --- sleeping --- */

void vipl_pause(uint64_t ns)
{
    Sleep((DWORD)((ns + 999999) / 1000000));
}

void vipl_sleeps_end(struct vipl_object *object)
{
    for (struct vipl_sleep *sleep = object->sleeps; sleep != NULL; sleep = sleep->next) {
        vipl_store_release(sleep->woken, 1);
        WakeByAddressSingle(sleep->woken);
    }
}

/* What of these descriptors is ready, as vipl_poll() returns it; ETIMEDOUT: nothing. One that is
 * not open counts as ready. vipl_objects is held. */
static int what_is_ready(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct vipl_object *object = vipl_object_at(fds[i]);
        if (fds[i] >= 0 && (object == NULL || object->ready)) {
            return i == 0 || fds[0] < 0 ? 0 : VIPL_POLL_OTHERS;
        }
    }
    return ETIMEDOUT;
}

/* Hangs a word on the objects of the descriptors, which are open; vipl_objects is held. */
static void hang_on(const int *fds, unsigned count, struct vipl_sleep *sleeps, uint32_t *woken)
{
    for (unsigned i = 0; i < count; i++) {
        struct vipl_object *object = vipl_object_at(fds[i]);
        sleeps[i] = (struct vipl_sleep){.woken = woken, .object = object};
        if (object != NULL) {
            vipl_fetch_add(&object->references, 1);
            sleeps[i].next = object->sleeps;
            object->sleeps = &sleeps[i];
        }
    }
}

static void take_off(struct vipl_sleep *sleeps, unsigned count)
{
    AcquireSRWLockExclusive(&vipl_objects);
    for (unsigned i = 0; i < count; i++) {
        struct vipl_sleep **at = sleeps[i].object == NULL ? NULL : &sleeps[i].object->sleeps;
        while (at != NULL && *at != &sleeps[i]) {
            at = &(*at)->next;
        }
        if (at != NULL) {
            *at = sleeps[i].next;
        }
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    for (unsigned i = 0; i < count; i++) {
        vipl_object_put(sleeps[i].object);
    }
}

/* Sleeps until an object is marked, or the time is over. Returns what is ready then. */
static int sleep_once(const int *fds, unsigned count, DWORD ms)
{
    struct vipl_sleep sleeps[VIPL_POLL_OWN];
    uint32_t woken = 0;
    uint32_t not_yet = 0;
    AcquireSRWLockExclusive(&vipl_objects);
    int ready = what_is_ready(fds, count);
    if (ready == ETIMEDOUT && ms > 0) {
        hang_on(fds, count, sleeps, &woken);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    if (ready != ETIMEDOUT || ms == 0) {
        return ready;
    }
    if (vipl_load_acquire(&woken) == 0) { /* pairs with vipl_sleeps_end() */
        (void)WaitOnAddress(&woken, &not_yet, sizeof(woken), ms);
    }
    take_off(sleeps, count);
    AcquireSRWLockShared(&vipl_objects);
    ready = what_is_ready(fds, count);
    ReleaseSRWLockShared(&vipl_objects);
    return ready;
}

int vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                   const void *mask)
{
    uint64_t end = vipl_now_ns() + (timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * 1000000);
    uint64_t now;
    int ready;
    (void)more; /* has no descriptors */
    (void)mask;
    count = count < VIPL_POLL_OWN ? count : VIPL_POLL_OWN;
    do {
        now = vipl_now_ns();
        DWORD left = now < end ? (DWORD)((end - now + 999999) / 1000000) : 0;
        ready = sleep_once(fds, count, timeout_ms < 0 ? INFINITE : left);
    } while (ready == ETIMEDOUT && (timeout_ms < 0 || now < end));
    return ready;
}

int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask)
{
    return vipl_poll_more(fds, count, NULL, timeout_ms, mask);
}

int vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask, int cancel, void (*cancelled)(void *), void *arg)
{
    (void)cancel; /* no thread is cancelled */
    (void)cancelled;
    (void)arg;
    return vipl_poll_more(fds, count, more, timeout_ms, mask);
}

/* --- descriptors of the program: none is watched --- */

int vipl_more_fds_begin(struct vipl_more_fds *more, const struct pollfd *fds, unsigned long count)
{
    (void)fds;
    more->count = 0;
    more->set = NULL;
    return count > 0 ? EINVAL : 0;
}

void vipl_more_fds_end(struct vipl_more_fds *more)
{
    (void)more;
}

void vipl_more_fds_copy(const struct vipl_more_fds *more, struct pollfd *fds, bool found)
{
    (void)more;
    (void)fds;
    (void)found;
}

bool vipl_more_fds_are_ready(const struct vipl_more_fds *more)
{
    (void)more;
    return false;
}
