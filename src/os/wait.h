/* SPDX-License-Identifier: MIT */
/* Waiting for descriptors: wakers, sleeping, and sets of descriptors. */
#ifndef VIPL_OS_WAIT_H
#define VIPL_OS_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* --- waiting for descriptors ------------------------------------------------------------------ */

/* Wakes one thread: signalling a waker makes its descriptor readable until the waker is reset. */
struct vipl_waker {
    int fd;
    /* fd itself where the system has event descriptors, else the other end of a pipe */
    int write_fd;
    uint32_t generation;
    /* atomic, pairs with the thread that signals: set if the thread's blocking call is to end.
     * NULL: the call has no such word */
    uint32_t *cancel;
};
int vipl_waker_open(struct vipl_waker *waker);
void vipl_waker_close(struct vipl_waker *waker);
void vipl_waker_signal(struct vipl_waker *waker); /* async-signal-safe */
void vipl_waker_reset(struct vipl_waker *waker);
/* The calling thread's; NULL: no descriptor or memory for one. */
struct vipl_waker *vipl_thread_waker(void);

/* A shared waker is a descriptor that one process sleeps on, in a poll set, and that another
 * process signals, to which it was passed. It is never reset: the poll set reports each signal
 * once (vipl_pollset_add_signals()). The process that signals does not trust the other one. */
/* Returns an errno value; ENOTSUP: the system has no shared wakers. */
int vipl_shared_waker_open(int *fd);
/* Whether a descriptor that another process has passed is a shared waker. */
bool vipl_shared_waker_is_valid(int fd);
void vipl_shared_waker_signal(int fd);

/* Sleeps for `ns` nanoseconds, less than a second, or until a signal handler has run. */
void vipl_pause(uint64_t ns);
/* Sleeps until a descriptor is readable or hung up, timeout_ms is over (-1: never), or a signal
 * handler has run. Descriptors < 0 are left out. `mask` is a sigset_t of the signals that are
 * blocked meanwhile; NULL leaves them as they are. Returns 0 if the first descriptor is readable or
 * is left out, VIPL_POLL_OTHERS if only others are, ETIMEDOUT, or EINTR. */
enum { VIPL_POLL_OTHERS = -1, VIPL_POLL_PROGRAM = -2 };
int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask);

/* Descriptors of the program that are watched beside those of the library, as ppoll() watches them:
 * a copy of the program's array, for one call. */
enum { VIPL_POLL_OWN = 4, VIPL_POLL_FEW = 16 };
struct pollfd;
struct vipl_more_fds {
    struct pollfd *set; /* room for VIPL_POLL_OWN descriptors of the library, then the program's */
    unsigned count;     /* of the program's */
    uint64_t few[VIPL_POLL_OWN + VIPL_POLL_FEW]; /* `set`, if the program's are few */
};
/* Copies the program's array. Returns 0, EINVAL if the array is missing or longer than any system
 * allows, or ENOMEM. vipl_more_fds_end() frees the copy. */
int vipl_more_fds_begin(struct vipl_more_fds *more, const struct pollfd *fds, unsigned long count);
void vipl_more_fds_end(struct vipl_more_fds *more);
/* Sets the revents of the program's array: what the last vipl_poll_more() found, or 0. */
void vipl_more_fds_copy(const struct vipl_more_fds *more, struct pollfd *fds, bool found);
/* vipl_poll() that also ends when one of the program's descriptors is ready, and notes their state.
 * `more` may be NULL. Also returns VIPL_POLL_PROGRAM if only descriptors of the program are ready,
 * and EINVAL: the process may not watch that many descriptors. */
int vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                   const void *mask);
/* Returns true if the last vipl_poll_more() found one of the program's descriptors ready. */
bool vipl_more_fds_are_ready(const struct vipl_more_fds *more);
/* The same as a cancellation point, if `cancel`, which vipl_cancel_off() returned, says that the
 * thread may be cancelled: `cancelled` is then called, and the thread ends. */
int vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask, int cancel, void (*cancelled)(void *), void *arg);

/* A set of descriptors that is itself one descriptor. */
struct vipl_pollset {
    int fd;
};
struct vipl_ready {
    void *tag;
    bool hangup; /* the other end sends nothing more, or `broken` is true */
    bool broken; /* both directions have ended, or there is an error */
    bool readable;
    bool writable;
};
int vipl_pollset_open(struct vipl_pollset *set);
void vipl_pollset_close(struct vipl_pollset *set);
/* Adds a descriptor, to be reported with `tag` when it is readable or hung up. */
int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag);
/* Adds an end of a local socket, to be reported only when every process has closed the other
 * end. */
int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag);
/* Adds a shared waker, to be reported once after each signal or series of signals. */
int vipl_pollset_add_signals(struct vipl_pollset *set, int fd, void *tag);
void vipl_pollset_remove(struct vipl_pollset *set, int fd);
/* Writes at most `max` ready members, and returns their number. Never blocks. */
unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out, unsigned max);
/* Sets what a member is watched for besides its end. */
int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable);
/* Sets what a member is watched for, and adds it if `is_new`. A member that is watched for nothing
 * is still reported when it is broken. */
int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable,
                       bool writable);
/* Sleeps until a member is ready, the time is over (UINT64_MAX: never), or a signal handler has
 * run. */
void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns);

#endif
