/* SPDX-License-Identifier: MIT */
/* Messages that the system keeps whole: seqpacket sockets. */
#include <errno.h>

#include "os/posix/descriptor.h"
#include "os/posix/local.h"

const int vipl_local_type = SOCK_SEQPACKET;

void vipl_local_tune(int fd)
{
    (void)fd;
}

int vipl_local_put(int fd, const struct msghdr *msg)
{
    ssize_t n;
    do {
        n = sendmsg(fd, msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}

int vipl_local_get(int fd, struct msghdr *msg, size_t *length)
{
    ssize_t n;
    do {
        n = vipl_fd_receive(fd, msg, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        msg->msg_controllen = 0;
        return errno;
    }
    *length = (size_t)n;
    return 0;
}
