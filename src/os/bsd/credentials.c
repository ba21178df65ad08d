/* SPDX-License-Identifier: MIT */
/* Who is at the other end of a local socket: each of these systems has a call of its own. None adds
 * the sender to a message, which only shared objects need. */
#include <errno.h>
#include <sys/types.h>
/* behind the types that these need */
#include <sys/socket.h>
#include <sys/ucred.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/local.h"

#ifndef SOL_LOCAL
#define SOL_LOCAL 0 /* the level of the options of local sockets */
#endif

#if defined(__OpenBSD__)

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    struct sockpeercred who;
    socklen_t n = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0) {
        return errno;
    }
    *pid = (int)who.pid;
    *user = (uint32_t)who.uid;
    return 0;
}

#elif defined(__NetBSD__)

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    struct unpcbid who;
    socklen_t n = sizeof(who);
    if (getsockopt(fd, SOL_LOCAL, LOCAL_PEEREID, &who, &n) != 0) {
        return errno;
    }
    *pid = (int)who.unp_pid;
    *user = (uint32_t)who.unp_euid;
    return 0;
}

#elif defined(__APPLE__)

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    pid_t process;
    uid_t owner;
    gid_t group;
    socklen_t n = sizeof(process);
    if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &process, &n) != 0 || getpeereid(fd, &owner, &group) != 0) {
        return errno;
    }
    *pid = (int)process;
    *user = (uint32_t)owner;
    return 0;
}

#else /* FreeBSD */

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    struct xucred who;
    socklen_t n = sizeof(who);
    if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERCRED, &who, &n) != 0) {
        return errno;
    }
    if (who.cr_version != XUCRED_VERSION) {
        return ENOTSUP;
    }
    *pid = (int)who.cr_pid;
    *user = (uint32_t)who.cr_uid;
    return 0;
}

#endif

void vipl_local_read_sender(struct msghdr *msg, struct vipl_sender *sender)
{
    (void)msg;
    (void)sender; /* stays unknown */
}

int vipl_local_name_senders(int fd)
{
    (void)fd;
    return ENOTSUP;
}
