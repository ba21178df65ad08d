/* SPDX-License-Identifier: MIT */
#include "sockets/rights.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "sockets/attach.h"
#include "sockets/conn.h"
#include "sockets/real.h"

/* Calls `each` for the descriptors of a message, until it returns false. */
static bool for_each_fd(const struct msghdr *message, bool (*each)(int fd))
{
    struct msghdr *control = (struct msghdr *)(uintptr_t)message; /* CMSG_NXTHDR() changes nothing */
    for (struct cmsghdr *part = CMSG_FIRSTHDR(control); part != NULL; part = CMSG_NXTHDR(control, part)) {
        bool has_fds = part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS;
        size_t count = has_fds ? (part->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            if (!each(fd)) {
                return false;
            }
        }
    }
    return true;
}

static bool may_pass(int fd)
{
    struct sock_conn *conn = sock_conn_of(fd);
    if (conn == NULL) {
        return true;
    }
    enum sock_state state = sock_conn_state(conn);
    if (state != SOCK_UNKNOWN) {
        sock_conn_give_up(conn, SOCK_OPTION);
        state = sock_conn_state(conn);
    }
    sock_conn_put(conn);
    return state < SOCK_MOVED;
}

bool sock_rights_may_pass(const struct msghdr *message)
{
    if (message->msg_controllen == 0 || !sock_enter()) {
        return true;
    }
    bool may = for_each_fd(message, may_pass);
    if (!may) {
        vipl_log(VIPL_LOG_ERROR, "sockets: a connection that is moved cannot be passed to another process");
        errno = EOPNOTSUPP;
    }
    sock_leave();
    return may;
}

static bool take_up(int fd)
{
    sock_attach_received(fd);
    return true;
}

void sock_rights_received(const struct msghdr *message)
{
    int error = errno;
    if (message->msg_controllen != 0 && sock_enter()) {
        for_each_fd(message, take_up);
        sock_leave();
    }
    errno = error;
}
