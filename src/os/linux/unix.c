/* SPDX-License-Identifier: MIT */
/* Local stream sockets that have a path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/path_lock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

enum { BACKLOG = 4096 }; /* the system may have less */

static int make_path_address(struct sockaddr_un *a, const char *path)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(a->sun_path)) {
        return ENAMETOOLONG;
    }
    strcpy(a->sun_path, path);
    return 0;
}

static int open_stream_socket(int *fd)
{
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

static int bind_and_listen(int s, const struct sockaddr_un *a)
{
    /* The path gets the mode that the socket has. */
    return fchmod(s, 0600) == 0 && bind(s, (const struct sockaddr *)a, sizeof(*a)) == 0 &&
                   listen(s, BACKLOG) == 0
               ? 0
               : errno;
}

int vipl_unix_listen(const char *path, int *listener, int *lock)
{
    struct sockaddr_un a;
    int s = -1;
    int held = -1;
    int error = make_path_address(&a, path);
    error = error == 0 ? vipl_path_lock(path, &held) : error;
    error = error == 0 ? open_stream_socket(&s) : error;
    if (error == 0) {
        error = vipl_path_remove_stale(path);
        error = error == 0 ? bind_and_listen(s, &a) : error;
    }
    if (error != 0) {
        vipl_fd_close(s);
        vipl_path_unlock(path, held);
        return error;
    }
    *listener = s;
    *lock = held;
    return 0;
}

void vipl_unix_unlisten(const char *path, int listener, int lock)
{
    unlink(path); /* before the lock is released: no other process can have made it yet */
    vipl_fd_close(listener);
    vipl_path_unlock(path, lock);
}

int vipl_unix_connect(const char *path, int *fd)
{
    struct sockaddr_un a;
    int s;
    int error = make_path_address(&a, path);
    error = error == 0 ? open_stream_socket(&s) : error;
    if (error != 0) {
        return error;
    }
    if (connect(s, (struct sockaddr *)&a, sizeof(a)) != 0) {
        error = errno;
        vipl_fd_close(s);
        return error;
    }
    *fd = s;
    return 0;
}

union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(VIPL_UNIX_FDS * sizeof(int))];
};

int vipl_unix_send(int fd, const void *bytes, size_t length, const int *pass, unsigned count, size_t *sent)
{
    union control control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;
    if (count > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), pass, count * sizeof(int));
    }
    int cancel = vipl_cancel_off();
    do {
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    vipl_cancel_restore(cancel);
    if (n < 0) {
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    }
    *sent = (size_t)n;
    return 0;
}

/* Adopts the descriptors that came with a message. Returns false if not all of them are in the
 * list. */
static bool adopt_received_fds(struct msghdr *msg, int *fds, unsigned most, unsigned *count)
{
    bool good = (msg->msg_flags & MSG_CTRUNC) == 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t came = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                          ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                          : 0;
        for (size_t i = 0; i < came; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (*count == most) {
                close(fd);
                good = false;
            } else if (vipl_fd_adopt(&fd) != 0) {
                good = false;
            } else {
                fds[(*count)++] = fd;
            }
        }
    }
    return good;
}

int vipl_unix_receive(int fd, void *bytes, size_t size, size_t *length, int *fds, unsigned most,
                      unsigned *count)
{
    union control control;
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    *count = 0;
    vipl_fd_begin();
    do {
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    int error = n >= 0 ? 0 : errno == EWOULDBLOCK ? EAGAIN : errno;
    bool all = error != 0 || adopt_received_fds(&msg, fds, most, count);
    vipl_fd_end();
    if (!all) {
        while (*count > 0) {
            vipl_fd_close(fds[--*count]);
        }
        return EMSGSIZE;
    }
    *length = error == 0 ? (size_t)n : 0;
    return error;
}

void vipl_unix_shutdown(int fd)
{
    (void)shutdown(fd, SHUT_RDWR); /* fails only if the stream has ended */
}

static int peer_pidfd(int fd)
{
    int pidfd = -1;
    socklen_t n = sizeof(pidfd);
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0) {
        return pidfd;
    }
#ifdef SYS_pidfd_open
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid > 0) {
        return (int)syscall(SYS_pidfd_open, who.pid, 0);
    }
#endif
    return -1;
}

int vipl_unix_peer_process(int fd)
{
    vipl_fd_begin();
    int pidfd = peer_pidfd(fd);
    if (vipl_fd_adopt(&pidfd) != 0) {
        pidfd = -1;
    }
    vipl_fd_end();
    return pidfd;
}
