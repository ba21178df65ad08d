/* SPDX-License-Identifier: MIT */
/* What 32-bit programs call that have a time_t of 64 bits (_TIME_BITS=64), in the GNU C library: as
 * sock_names.h, which includes this. */

/* interpose.c */
SOCK_VARIADIC(int, __fcntl_time64, int)
SOCK_VARIADIC(int, __ioctl_time64, unsigned long)
SOCK_NAME(ssize_t, __recvmsg64, (int fd, struct msghdr *message, int flags), (fd, message, flags))
SOCK_NAME(ssize_t, __sendmsg64, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SOCK_NAME(int, __recvmmsg64,
          (int fd, struct mmsghdr *messages, unsigned count, int flags, struct sock_timespec64 *timeout),
          (fd, messages, count, flags, timeout))
SOCK_NAME(int, __sendmmsg64, (int fd, struct mmsghdr *messages, unsigned count, int flags),
          (fd, messages, count, flags))
SOCK_NAME(int, __getsockopt64, (int fd, int level, int name, void *value, socklen_t *length),
          (fd, level, name, value, length))
SOCK_NAME(int, __setsockopt64, (int fd, int level, int name, const void *value, socklen_t length),
          (fd, level, name, value, length))

/* interpose_wait.c */
SOCK_NAME(int, __ppoll64,
          (struct pollfd * fds, nfds_t count, const struct sock_timespec64 *timeout, const sigset_t *mask),
          (fds, count, timeout, mask))
SOCK_NAME(int, __select64,
          (int count, fd_set *in, fd_set *out, fd_set *except, struct sock_timeval64 *timeout),
          (count, in, out, except, timeout))
SOCK_NAME(int, __pselect64,
          (int count, fd_set *in, fd_set *out, fd_set *except, const struct sock_timespec64 *timeout,
           const sigset_t *mask),
          (count, in, out, except, timeout, mask))
SOCK_NAME(int, __epoll_pwait2_time64,
          (int set, struct epoll_event *events, int count, const struct sock_timespec64 *timeout,
           const sigset_t *mask),
          (set, events, count, timeout, mask))
