/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on descriptors. The system never restarts ppoll() and pselect() after a signal handler,
 * not even one that was installed with SA_RESTART.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "os/os.h"
#include "os/posix/ppoll.h"

/* Sleeps for a moment when the system refuses to watch the descriptors: the program has closed
 * them, may not open any descriptors, or there is no memory. Returns 0 if the caller is to try
 * again. */
static int pause_briefly(int timeout_ms)
{
    enum { PAUSE_MS = 10 };
    bool all = timeout_ms >= 0 && timeout_ms <= PAUSE_MS;
    struct timespec pause = {.tv_nsec = (all ? timeout_ms : PAUSE_MS) * 1000000L};
    if (nanosleep(&pause, NULL) != 0) {
        return EINTR;
    }
    return all ? ETIMEDOUT : 0;
}

/* Whether some descriptors are not open, and no other one is ready. */
static bool are_closed(const struct pollfd *set, nfds_t count)
{
    bool closed = false;
    for (nfds_t i = 0; i < count; i++) {
        if ((set[i].revents & ~POLLNVAL) != 0) {
            return false;
        }
        closed |= set[i].revents != 0;
    }
    return closed;
}

void vipl_pause(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)ns};
    (void)nanosleep(&time, NULL);
}

int vipl_more_fds_begin(struct vipl_more_fds *more, const struct pollfd *fds, unsigned long count)
{
    enum { MAX_COUNT = INT_MAX / (int)sizeof(struct pollfd) - VIPL_POLL_OWN };
    _Static_assert(sizeof(struct pollfd) <= sizeof(more->few[0]), "few holds the set");
    if ((fds == NULL && count > 0) || count > MAX_COUNT) {
        return EINVAL;
    }
    more->count = (unsigned)count;
    more->set = (struct pollfd *)(void *)more->few;
    if (count > VIPL_POLL_FEW) {
        more->set = vipl_alloc((VIPL_POLL_OWN + (size_t)count) * sizeof(*more->set));
    }
    if (more->set == NULL) {
        return ENOMEM;
    }
    for (unsigned i = 0; i < more->count; i++) {
        more->set[VIPL_POLL_OWN + i] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
    }
    return 0;
}

void vipl_more_fds_end(struct vipl_more_fds *more)
{
    if (more->count > VIPL_POLL_FEW) {
        vipl_free(more->set);
    }
}

void vipl_more_fds_copy(const struct vipl_more_fds *more, struct pollfd *fds, bool found)
{
    for (unsigned i = 0; i < more->count; i++) {
        fds[i].revents = 0;
        if (found) {
            fds[i].revents = more->set[VIPL_POLL_OWN + i].revents;
        }
    }
}

bool vipl_more_fds_are_ready(const struct vipl_more_fds *more)
{
    for (unsigned i = 0; i < more->count; i++) {
        if (more->set[VIPL_POLL_OWN + i].revents != 0) {
            return true;
        }
    }
    return false;
}

/* The set that is watched: the library's descriptors, and behind them the program's. */
static struct pollfd *join_fds(const int *fds, unsigned count, const struct vipl_more_fds *more,
                               struct pollfd *own, nfds_t *n)
{
    *n = 0;
    for (unsigned i = 0; i < count && *n < VIPL_POLL_OWN; i++) {
        if (fds[i] >= 0) {
            own[(*n)++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        }
    }
    if (more == NULL) {
        return own;
    }
    struct pollfd *set = more->set + VIPL_POLL_OWN - *n;
    memcpy(set, own, *n * sizeof(*own));
    return set;
}

/* Which of the descriptors have ended the sleep, as vipl_poll_more() returns it. `n` of the
 * library's are at the start of the set. */
static int what_is_ready(const struct pollfd *set, nfds_t n, const int *fds, unsigned count)
{
    if (count == 0 || fds[0] < 0 || set[0].revents != 0) {
        return 0;
    }
    for (nfds_t i = 1; i < n; i++) {
        if (set[i].revents != 0) {
            return VIPL_POLL_OTHERS;
        }
    }
    return VIPL_POLL_PROGRAM;
}

int vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                   const void *mask)
{
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    struct pollfd own[VIPL_POLL_OWN];
    nfds_t n;
    struct pollfd *set = join_fds(fds, count, more, own, &n);
    int ready = vipl_ppoll(set, n + (more == NULL ? 0 : more->count), timeout_ms < 0 ? NULL : &timeout, mask);
    if (ready < 0 && (errno == EINTR || (errno == EINVAL && more != NULL))) {
        return errno;
    }
    if (ready < 0) {
        return pause_briefly(timeout_ms);
    }
    if (ready > 0 && are_closed(set, n) && (more == NULL || !vipl_more_fds_are_ready(more))) {
        /* counts as hung up, after a pause */
        return pause_briefly(timeout_ms) == EINTR ? EINTR : 0;
    }
    if (ready == 0) {
        return ETIMEDOUT;
    }
    return what_is_ready(set, n, fds, count);
}

int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask)
{
    return vipl_poll_more(fds, count, NULL, timeout_ms, mask);
}

int vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask, int cancel, void (*cancelled)(void *), void *arg)
{
    int rc;
    pthread_cleanup_push(cancelled, arg);
    vipl_cancel_restore(cancel);
    rc = vipl_poll_more(fds, count, more, timeout_ms, mask);
    (void)vipl_cancel_off();
    pthread_cleanup_pop(0);
    return rc;
}
