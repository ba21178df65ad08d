/* SPDX-License-Identifier: MIT */
/* The functions that the sockets library puts in the place of the C library's: result, name,
 * parameters and arguments, each on a line of its own. A variadic one has a descriptor and a
 * command of the type that is named; SOCK_LIST names those with arguments up to a NULL. To be
 * included with all three defined. cmake/vipl_sockets.cmake reads the names too. */

/* interpose.c */
SOCK_NAME(int, connect, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length))
SOCK_NAME(int, listen, (int fd, int backlog), (fd, backlog))
SOCK_NAME(int, accept, (int fd, struct sockaddr *from, socklen_t *length), (fd, from, length))
SOCK_NAME(int, accept4, (int fd, struct sockaddr *from, socklen_t *length, int flags),
          (fd, from, length, flags))
SOCK_NAME(int, shutdown, (int fd, int how), (fd, how))
SOCK_NAME(int, close, (int fd), (fd))
SOCK_NAME(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags))
SOCK_NAME(void, closefrom, (int first), (first))
SOCK_NAME(int, dup, (int fd), (fd))
SOCK_NAME(int, dup2, (int fd, int to), (fd, to))
SOCK_NAME(int, dup3, (int fd, int to, int flags), (fd, to, flags))
SOCK_NAME(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
SOCK_NAME(ssize_t, readv, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
SOCK_NAME(ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
SOCK_NAME(ssize_t, recvfrom,
          (int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length),
          (fd, to, size, flags, from, length))
SOCK_NAME(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
SOCK_NAME(int, recvmmsg,
          (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
          (fd, messages, count, flags, timeout))
SOCK_NAME(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
SOCK_NAME(ssize_t, writev, (int fd, const struct iovec *pieces, int count), (fd, pieces, count))
SOCK_NAME(ssize_t, send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))
SOCK_NAME(ssize_t, sendto,
          (int fd, const void *from, size_t size, int flags, const struct sockaddr *to, socklen_t length),
          (fd, from, size, flags, to, length))
SOCK_NAME(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SOCK_NAME(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags),
          (fd, messages, count, flags))
SOCK_NAME(ssize_t, sendfile, (int fd, int from, off_t *offset, size_t size), (fd, from, offset, size))
SOCK_NAME(ssize_t, sendfile64, (int fd, int from, off64_t *offset, size_t size), (fd, from, offset, size))
SOCK_NAME(ssize_t, splice, (int from, off64_t *at, int to, off64_t *to_at, size_t size, unsigned flags),
          (from, at, to, to_at, size, flags))
SOCK_VARIADIC(int, fcntl, int)
SOCK_VARIADIC(int, fcntl64, int)
SOCK_VARIADIC(int, ioctl, unsigned long)
SOCK_NAME(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *length),
          (fd, level, name, value, length))
SOCK_NAME(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
          (fd, level, name, value, length))
SOCK_NAME(ssize_t, __read_chk, (int fd, void *to, size_t size, size_t room), (fd, to, size, room))
SOCK_NAME(ssize_t, __recv_chk, (int fd, void *to, size_t size, size_t room, int flags),
          (fd, to, size, room, flags))
SOCK_NAME(ssize_t, __recvfrom_chk,
          (int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from, socklen_t *length),
          (fd, to, size, room, flags, from, length))
SOCK_NAME(void, _exit, (int status), (status))
SOCK_NAME(void, _Exit, (int status), (status))

/* stdio.c */
SOCK_NAME(FILE *, fdopen, (int fd, const char *mode), (fd, mode))

SOCK_LIST(dprintf)
SOCK_LIST(__dprintf_chk)
SOCK_NAME(int, vdprintf, (int fd, const char *format, va_list list), (fd, format, list))
SOCK_NAME(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list list), (fd, flag, format, list))

/* exec.c */
SOCK_NAME(int, execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
SOCK_NAME(int, execv, (const char *path, char *const argv[]), (path, argv))
SOCK_NAME(int, execvp, (const char *file, char *const argv[]), (file, argv))
SOCK_NAME(int, execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
SOCK_NAME(int, fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
SOCK_LIST(execl)
SOCK_LIST(execlp)
SOCK_LIST(execle)

/* interpose_wait.c */
SOCK_NAME(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
SOCK_NAME(int, ppoll,
          (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
          (fds, count, timeout, mask))
SOCK_NAME(int, __poll_chk, (struct pollfd * fds, nfds_t count, int timeout, size_t room),
          (fds, count, timeout, room))
SOCK_NAME(int, __ppoll_chk,
          (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
           size_t room),
          (fds, count, timeout, mask, room))
SOCK_NAME(int, select, (int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout),
          (count, in, out, except, timeout))
SOCK_NAME(int, pselect,
          (int count, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
           const sigset_t *mask),
          (count, in, out, except, timeout, mask))
SOCK_NAME(int, epoll_create, (int size), (size))
SOCK_NAME(int, epoll_create1, (int flags), (flags))
SOCK_NAME(int, epoll_ctl, (int set, int operation, int fd, struct epoll_event *event),
          (set, operation, fd, event))
SOCK_NAME(int, epoll_wait, (int set, struct epoll_event *events, int count, int timeout),
          (set, events, count, timeout))
SOCK_NAME(int, epoll_pwait,
          (int set, struct epoll_event *events, int count, int timeout, const sigset_t *mask),
          (set, events, count, timeout, mask))
SOCK_NAME(int, epoll_pwait2,
          (int set, struct epoll_event *events, int count, const struct timespec *timeout,
           const sigset_t *mask),
          (set, events, count, timeout, mask))

#ifdef SOCK_TIME64
#include "sockets/sock_names_time64.h"
#endif
