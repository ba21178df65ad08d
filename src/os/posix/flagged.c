/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that get their flags after they are made, where the system's calls take none. Another
 * thread that forks and then executes a program meets no descriptor without its flags, because
 * forks wait for vipl_fd_end(). One that executes a program without fork (posix_spawn()) may.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/posix/descriptor.h"

static bool set_flags(int fd, bool blocks)
{
    int flags = blocks ? 0 : fcntl(fd, F_GETFL);
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
           (blocks || (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0));
}

/* Sets the flags of `count` descriptors that a call has made. If that fails they are closed.
 * Returns `made`, which is what the call has returned, or -1. */
static int with_flags(int made, const int *fds, unsigned count, bool blocks)
{
    bool good = made >= 0;
    for (unsigned i = 0; i < count && good; i++) {
        good = set_flags(fds[i], blocks);
    }
    if (good || made < 0) {
        return made;
    }
    int error = errno;
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
    errno = error;
    return -1;
}

static void keep_quiet(int socket)
{
#ifdef SO_NOSIGPIPE /* older systems that have it do not know MSG_NOSIGNAL */
    int on = 1;
    if (socket >= 0) {
        (void)setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
    }
#else
    (void)socket;
#endif
}

int vipl_fd_socket(int family, int type)
{
    int fd = socket(family, type, 0);
    keep_quiet(fd);
    return with_flags(fd, &fd, 1, false);
}

int vipl_fd_socket_pair(int type, int fds[2])
{
    int made = socketpair(AF_UNIX, type, 0, fds);
    if (made == 0) {
        keep_quiet(fds[0]);
        keep_quiet(fds[1]);
    }
    return with_flags(made, fds, 2, false);
}

int vipl_fd_accept(int listener, struct sockaddr *peer, socklen_t *size)
{
    int fd = accept(listener, peer, size);
    keep_quiet(fd);
    return with_flags(fd, &fd, 1, false);
}

int vipl_fd_pipe(int fds[2], bool blocks)
{
    return with_flags(pipe(fds), fds, 2, blocks);
}

int vipl_fd_copy_to(int from, int to)
{
    int fd = dup2(from, to);
    return with_flags(fd, &fd, 1, true);
}

ssize_t vipl_fd_receive(int socket, struct msghdr *message, int flags)
{
    ssize_t n = recvmsg(socket, message, flags);
    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        size_t count = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                           ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                           : 0;
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* fails for no open descriptor */
        }
    }
    return n;
}
