/* SPDX-License-Identifier: MIT */
/*
 * Wakers, and sleeping for descriptors. A thread that sleeps hangs a record of its own on each
 * object, and waits for that record's event. No handler of the program interrupts a sleep, and no
 * descriptor of the program is watched.
 */
#include <errno.h>
#include <limits.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/windows/sleeper.h"

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

/* Sleeps until an object is marked, the time is over, or for no reason. Returns what is ready
 * then. */
static int sleep_once(struct vipl_sleeper *sleeper, const int *fds, unsigned count, DWORD ms)
{
    AcquireSRWLockExclusive(&vipl_objects);
    int ready = what_is_ready(fds, count);
    if (ready == ETIMEDOUT && ms > 0) {
        vipl_sleeper_hang_on(sleeper, fds, count);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    if (ready != ETIMEDOUT || ms == 0) {
        return ready;
    }
    vipl_store_release(&sleeper->asleep, 1); /* pairs with on_end() of sleeper.c */
    (void)WaitForSingleObject(sleeper->event, ms);
    vipl_store_release(&sleeper->asleep, 0);
    vipl_sleeper_take_off(sleeper);
    AcquireSRWLockShared(&vipl_objects);
    ready = what_is_ready(fds, count);
    ReleaseSRWLockShared(&vipl_objects);
    return ready;
}

/* The same for a thread that has no memory to sleep as others do. */
static int look_and_pause(const int *fds, unsigned count, DWORD ms)
{
    AcquireSRWLockShared(&vipl_objects);
    int ready = what_is_ready(fds, count);
    ReleaseSRWLockShared(&vipl_objects);
    if (ready == ETIMEDOUT && ms > 0) {
        Sleep(1);
    }
    return ready;
}

static int sleep_in(struct vipl_sleeper *sleeper, const int *fds, unsigned count, int timeout_ms)
{
    uint64_t end = vipl_now_ns() + (timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * 1000000);
    uint64_t now;
    int ready;
    count = count < VIPL_POLL_OWN ? count : VIPL_POLL_OWN;
    do {
        now = vipl_now_ns();
        DWORD left = now < end ? (DWORD)((end - now + 999999) / 1000000) : 0;
        DWORD ms = timeout_ms < 0 ? INFINITE : left;
        ready = sleeper != NULL ? sleep_once(sleeper, fds, count, ms) : look_and_pause(fds, count, ms);
    } while (ready == ETIMEDOUT && (timeout_ms < 0 || now < end));
    return ready;
}

int vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                   const void *mask)
{
    (void)more; /* has no descriptors */
    (void)mask;
    return sleep_in(vipl_sleeper_get(), fds, count, timeout_ms);
}

int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask)
{
    return vipl_poll_more(fds, count, NULL, timeout_ms, mask);
}

int vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask, int cancel, void (*cancelled)(void *), void *arg)
{
    struct vipl_sleeper *sleeper = vipl_sleeper_get();
    (void)more;
    (void)mask;
    (void)cancel; /* no thread is cancelled, but any may be killed */
    if (sleeper != NULL) {
        sleeper->arg = arg;
        sleeper->cancelled = cancelled;
    }
    int ready = sleep_in(sleeper, fds, count, timeout_ms);
    if (sleeper != NULL) {
        sleeper->cancelled = NULL;
    }
    return ready;
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
