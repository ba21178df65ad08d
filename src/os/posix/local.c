/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes of this host: AF_UNIX sockets, which report the peer's death as end of
 * stream. How messages stay whole is the system's (local_packet.c, local_stream.c).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/descriptor.h"
#include "os/posix/local.h"

int vipl_local_open(int *fd)
{
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : vipl_fd_socket(AF_UNIX, vipl_local_type);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    vipl_local_tune(*fd);
    return error;
}

int vipl_local_pair(int fds[2])
{
    vipl_fd_begin();
    bool made = !vipl_resource_fails(EMFILE) && vipl_fd_socket_pair(vipl_local_type, fds) == 0;
    int error = made ? vipl_fd_adopt_pair(fds) : errno;
    vipl_fd_end();
    if (error != 0) {
        fds[0] = fds[1] = -1;
    }
    vipl_local_tune(fds[0]);
    vipl_local_tune(fds[1]);
    return error;
}

int vipl_local_replace(int fd, int *by)
{
    vipl_fd_begin();
    int error = vipl_fd_copy_to(*by, fd) < 0 ? errno : 0;
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
    int s = vipl_resource_fails(EMFILE) ? -1 : vipl_fd_accept(listener, NULL, NULL);
    int error = vipl_fd_adopt(&s);
    vipl_fd_end();
    if (error == 0) {
        vipl_local_tune(s);
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
    int cancel = vipl_cancel_off();
    int error = vipl_local_put(fd, &msg);
    vipl_cancel_restore(cancel);
    return error;
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
    fds[0] = fds[1] = -1;
    *sender = (struct vipl_sender){0, 0, 0};
    vipl_fd_begin();
    int error = vipl_local_get(fd, &msg, length);
    collect_fds(&msg, fds);
    vipl_fd_end();
    if (error == 0) {
        vipl_local_read_sender(&msg, sender);
    } else {
        vipl_fd_close(fds[0]);
        vipl_fd_close(fds[1]);
        fds[0] = fds[1] = -1;
    }
    return error;
}

bool vipl_local_has_hung_up(int fd)
{
    struct pollfd entry = {.fd = fd};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}
