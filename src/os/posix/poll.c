/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on descriptors. The system never restarts ppoll() after a signal handler, not even one
 * that was installed with SA_RESTART.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "os/os.h"

enum { MAX_FDS = 4 };

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

int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask)
{
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    struct pollfd set[MAX_FDS];
    nfds_t n = 0;
    for (unsigned i = 0; i < count && n < MAX_FDS; i++) {
        if (fds[i] >= 0) {
            set[n].fd = fds[i];
            set[n].events = POLLIN;
            set[n++].revents = 0;
        }
    }
    int ready = ppoll(set, n, timeout_ms < 0 ? NULL : &timeout, mask);
    if (ready < 0) {
        return errno == EINTR ? EINTR : pause_briefly(timeout_ms);
    }
    if (ready > 0 && are_closed(set, n)) { /* counts as hung up, after a pause */
        return pause_briefly(timeout_ms) == EINTR ? EINTR : 0;
    }
    if (ready == 0) {
        return ETIMEDOUT;
    }
    return fds[0] >= 0 && set[0].revents == 0 ? VIPL_POLL_OTHERS : 0;
}

int vipl_poll_cancellable(const int *fds, unsigned count, int timeout_ms, const void *mask, int cancel,
                          void (*cancelled)(void *), void *arg)
{
    int rc;
    pthread_cleanup_push(cancelled, arg);
    vipl_cancel_restore(cancel);
    rc = vipl_poll(fds, count, timeout_ms, mask);
    (void)vipl_cancel_off();
    pthread_cleanup_pop(0);
    return rc;
}
