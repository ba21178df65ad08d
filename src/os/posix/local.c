/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes of this host: AF_UNIX seqpacket sockets, which keep messages whole and
 * report the peer's death as end of stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/local.h"

int vipl_local_open(int *fd)
{
    vipl_fd_begin();
    *fd =
        vipl_resource_fails(EMFILE) ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

int vipl_local_pair(int fds[2])
{
    vipl_fd_begin();
    bool made = !vipl_resource_fails(EMFILE) &&
                socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0;
    int error = made ? vipl_fd_adopt_pair(fds) : errno;
    vipl_fd_end();
    if (error != 0) {
        fds[0] = fds[1] = -1;
    }
    return error;
}

int vipl_local_replace(int fd, int *by)
{
    vipl_fd_begin();
    int error = dup3(*by, fd, O_CLOEXEC) < 0 ? errno : 0;
    if (error == 0) {
        vipl_fd_own(fd);
        vipl_fd_disown(*by);
        close(*by);
        *by = fd;
    }
    vipl_fd_end();
    return error;
}

int vipl_local_accept(int listener, int *fd)
{
    vipl_fd_begin();
    int s = vipl_resource_fails(EMFILE) ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = vipl_fd_adopt(&s);
    vipl_fd_end();
    if (error == 0) {
        *fd = s;
    }
    return error;
}

uint32_t vipl_local_user(void)
{
    return (uint32_t)geteuid();
}

union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(2 * sizeof(int)) + VIPL_LOCAL_SENDER_BYTES];
};

int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count)
{
    union control control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), pass_fds, fd_count * sizeof(int));
    }
    ssize_t n;
    int cancel = vipl_cancel_off();
    do {
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    vipl_cancel_restore(cancel);
    return n < 0 ? errno : 0;
}

static void collect_fds(struct msghdr *msg, int fds[2])
{
    unsigned found = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (found < 2) {
                (void)vipl_fd_adopt(&fd); /* on failure fd is -1: not received */
                fds[found++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2])
{
    struct vipl_sender sender;
    return vipl_local_receive_from(fd, bytes, size, length, fds, &sender);
}

int vipl_local_receive_from(int fd, void *bytes, size_t size, size_t *length, int fds[2],
                            struct vipl_sender *sender)
{
    union control control;
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    fds[0] = fds[1] = -1;
    *sender = (struct vipl_sender){0, 0, 0};
    vipl_fd_begin();
    do {
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    int error = n < 0 ? errno : 0;
    if (error == 0) {
        collect_fds(&msg, fds);
        vipl_local_read_sender(&msg, sender);
        *length = (size_t)n;
    }
    vipl_fd_end();
    return error;
}

bool vipl_local_has_hung_up(int fd)
{
    struct pollfd entry = {.fd = fd};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}
