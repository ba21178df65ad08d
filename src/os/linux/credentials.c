/* SPDX-License-Identifier: MIT */
/* Who is at the other end of a local socket, and who has sent a message. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "os/os.h"
#include "os/posix/local.h"

_Static_assert(CMSG_SPACE(sizeof(struct ucred)) <= VIPL_LOCAL_SENDER_BYTES, "a sender fits");

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    struct ucred who;
    socklen_t n = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0) {
        return errno;
    }
    *pid = (int)who.pid;
    *user = (uint32_t)who.uid;
    return 0;
}

void vipl_local_read_sender(struct msghdr *msg, struct vipl_sender *sender)
{
    struct ucred who;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(c), sizeof(who));
            *sender = (struct vipl_sender){(int)who.pid, (uint32_t)who.uid, (uint32_t)who.gid};
        }
    }
}

int vipl_local_name_senders(int fd)
{
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 ? 0 : errno;
}
