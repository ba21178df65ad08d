/* SPDX-License-Identifier: MIT */
/* The exported functions that wait. A call whose descriptors are all the kernel's is the kernel's;
 * so is one of a signal handler whose thread is inside the library. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/deadline.h"
#include "sockets/real.h"
#include "sockets/wait.h"

/* What programs are compiled to with _FORTIFY_SOURCE; no header declares them. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
                size_t room);

static const long ns_per_s = 1000000000;

static uint64_t deadline_of_ms(int ms)
{
    return ms < 0 ? VIPL_NO_DEADLINE : vipl_now_ns() + (uint64_t)ms * 1000000;
}

/* Returns false if the time is none that the kernel accepts. */
static bool deadline_after(int64_t s, int64_t ns, uint64_t *deadline)
{
    *deadline = VIPL_NO_DEADLINE;
    if (s < 0 || ns < 0 || ns >= ns_per_s) {
        return false;
    }
    uint64_t now = vipl_now_ns();
    uint64_t most = (VIPL_NO_DEADLINE - now) / (uint64_t)ns_per_s - 1;
    if ((uint64_t)s < most) {
        *deadline = now + (uint64_t)s * (uint64_t)ns_per_s + (uint64_t)ns;
    }
    return true;
}

static bool deadline_of(const struct timespec *timeout, uint64_t *deadline)
{
    *deadline = VIPL_NO_DEADLINE;
    return timeout == NULL || deadline_after(timeout->tv_sec, timeout->tv_nsec, deadline);
}

static int left(int result)
{
    int error = errno;
    sock_leave();
    errno = error;
    return result;
}

/* --- poll --- */

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (!sock_poll_is_own(fds, count) || !sock_enter()) {
        return SOCK_REAL(poll)(fds, count, timeout);
    }
    return left(sock_poll(fds, count, deadline_of_ms(timeout), NULL));
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_poll_is_own(fds, count) || !deadline_of(timeout, &deadline) || !sock_enter()) {
        return SOCK_REAL(ppoll)(fds, count, timeout, mask);
    }
    return left(sock_poll(fds, count, deadline, mask));
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
    if (room / sizeof(*fds) < count) {
        return SOCK_REAL(__poll_chk)(fds, count, timeout, room); /* which ends the program */
    }
    return poll(fds, count, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
                size_t room)
{
    if (room / sizeof(*fds) < count) {
        return SOCK_REAL(__ppoll_chk)(fds, count, timeout, mask, room);
    }
    return ppoll(fds, count, timeout, mask);
}

/* --- select --- */

/* What is left of the time, in nanoseconds. */
static uint64_t time_left(uint64_t deadline)
{
    uint64_t now = vipl_now_ns();
    return deadline == VIPL_NO_DEADLINE || now >= deadline ? 0 : deadline - now;
}

/* Linux tells how much of the time is left. */
static void write_time_left(struct timeval *timeout, uint64_t deadline)
{
    uint64_t rest = time_left(deadline);
    timeout->tv_sec = (time_t)(rest / (uint64_t)ns_per_s);
    timeout->tv_usec = (suseconds_t)(rest % (uint64_t)ns_per_s / 1000);
}

int select(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    uint64_t deadline = VIPL_NO_DEADLINE;
    struct timespec time = {0};
    if (timeout != NULL) { /* microseconds may be more than a second */
        time.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
        time.tv_nsec = timeout->tv_usec % 1000000 * 1000;
    }
    if (!sock_select_is_own(count, in, out, except) ||
        !deadline_of(timeout == NULL ? NULL : &time, &deadline) || !sock_enter()) {
        return SOCK_REAL(select)(count, in, out, except, timeout);
    }
    int result = left(sock_select(count, in, out, except, deadline, NULL));
    if (timeout != NULL) {
        write_time_left(timeout, deadline);
    }
    return result;
}

int pselect(int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
            const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_select_is_own(count, in, out, except) || !deadline_of(timeout, &deadline) || !sock_enter()) {
        return SOCK_REAL(pselect)(count, in, out, except, timeout, mask);
    }
    return left(sock_select(count, in, out, except, deadline, mask));
}

/* --- epoll --- */

static int created(int fd)
{
    if (fd >= 0 && sock_enter()) {
        sock_epoll_created(fd);
        return left(fd);
    }
    return fd;
}

int epoll_create(int size)
{
    return created(SOCK_REAL(epoll_create)(size));
}

int epoll_create1(int flags)
{
    return created(SOCK_REAL(epoll_create1)(flags));
}

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    if (!sock_epoll_is_known(set) || !sock_enter()) {
        return SOCK_REAL(epoll_ctl)(set, operation, fd, event);
    }
    return left(sock_epoll_ctl(set, operation, fd, event));
}

/* The kernel's events, without the library's. */
static int stripped(struct epoll_event *events, int count)
{
    return count <= 0 ? count : sock_epoll_strip(events, count);
}

int epoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
    if (!sock_epoll_is_known(set)) {
        return SOCK_REAL(epoll_wait)(set, events, most, timeout);
    }
    if (!sock_enter()) {
        return stripped(events, SOCK_REAL(epoll_wait)(set, events, most, timeout));
    }
    return left(sock_epoll_wait(set, events, most, timeout, deadline_of_ms(timeout), NULL));
}

int epoll_pwait(int set, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
    if (!sock_epoll_is_known(set)) {
        return SOCK_REAL(epoll_pwait)(set, events, most, timeout, mask);
    }
    if (!sock_enter()) {
        return stripped(events, SOCK_REAL(epoll_pwait)(set, events, most, timeout, mask));
    }
    return left(sock_epoll_wait(set, events, most, timeout, deadline_of_ms(timeout), mask));
}

int epoll_pwait2(int set, struct epoll_event *events, int most, const struct timespec *timeout,
                 const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_epoll_is_known(set) || !deadline_of(timeout, &deadline)) {
        return SOCK_REAL(epoll_pwait2)(set, events, most, timeout, mask);
    }
    if (!sock_enter()) {
        return stripped(events, SOCK_REAL(epoll_pwait2)(set, events, most, timeout, mask));
    }
    return left(sock_epoll_wait(set, events, most, vipl_ms_left(deadline), deadline, mask));
}

/* --- a time_t of 64 bits on 32-bit systems --- */

#ifdef SOCK_TIME64
/* No header declares them under these names. */
int __ppoll64(struct pollfd *fds, nfds_t count, const struct sock_timespec64 *timeout, const sigset_t *mask);
int __select64(int count, fd_set *in, fd_set *out, fd_set *except, struct sock_timeval64 *timeout);
int __pselect64(int count, fd_set *in, fd_set *out, fd_set *except, const struct sock_timespec64 *timeout,
                const sigset_t *mask);
int __epoll_pwait2_time64(int set, struct epoll_event *events, int most,
                          const struct sock_timespec64 *timeout, const sigset_t *mask);

static bool deadline_of64(const struct sock_timespec64 *timeout, uint64_t *deadline)
{
    *deadline = VIPL_NO_DEADLINE;
    return timeout == NULL ||
           deadline_after(timeout->tv_sec, timeout->tv_nsec[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__],
                          deadline);
}

int __ppoll64(struct pollfd *fds, nfds_t count, const struct sock_timespec64 *timeout, const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_poll_is_own(fds, count) || !deadline_of64(timeout, &deadline) || !sock_enter()) {
        return SOCK_REAL(__ppoll64)(fds, count, timeout, mask);
    }
    return left(sock_poll(fds, count, deadline, mask));
}

int __select64(int count, fd_set *in, fd_set *out, fd_set *except, struct sock_timeval64 *timeout)
{
    uint64_t deadline = VIPL_NO_DEADLINE;
    if (!sock_select_is_own(count, in, out, except) ||
        (timeout != NULL && !deadline_after(timeout->tv_sec + timeout->tv_usec / 1000000,
                                            timeout->tv_usec % 1000000 * 1000, &deadline)) ||
        !sock_enter()) {
        return SOCK_REAL(__select64)(count, in, out, except, timeout);
    }
    int result = left(sock_select(count, in, out, except, deadline, NULL));
    if (timeout != NULL) {
        uint64_t rest = time_left(deadline);
        timeout->tv_sec = (int64_t)(rest / (uint64_t)ns_per_s);
        timeout->tv_usec = (int64_t)(rest % (uint64_t)ns_per_s / 1000);
    }
    return result;
}

int __pselect64(int count, fd_set *in, fd_set *out, fd_set *except, const struct sock_timespec64 *timeout,
                const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_select_is_own(count, in, out, except) || !deadline_of64(timeout, &deadline) || !sock_enter()) {
        return SOCK_REAL(__pselect64)(count, in, out, except, timeout, mask);
    }
    return left(sock_select(count, in, out, except, deadline, mask));
}

int __epoll_pwait2_time64(int set, struct epoll_event *events, int most,
                          const struct sock_timespec64 *timeout, const sigset_t *mask)
{
    uint64_t deadline;
    if (!sock_epoll_is_known(set) || !deadline_of64(timeout, &deadline)) {
        return SOCK_REAL(__epoll_pwait2_time64)(set, events, most, timeout, mask);
    }
    if (!sock_enter()) {
        return stripped(events, SOCK_REAL(__epoll_pwait2_time64)(set, events, most, timeout, mask));
    }
    return left(sock_epoll_wait(set, events, most, vipl_ms_left(deadline), deadline, mask));
}
#endif
