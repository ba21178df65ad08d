/* SPDX-License-Identifier: MIT */
#include "sockets/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sockets/conn.h"
#include "sockets/options.h"
#include "sockets/process.h"
#include "sockets/real.h"

static bool is_known(int fd)
{
    struct sock_file *file = sock_file_of(fd);
    if (file != NULL) {
        sock_file_put(file);
    }
    return file != NULL;
}

bool sock_descriptor_drop(int fd)
{
    int error = errno;
    if (!is_known(fd) || !sock_process_is_own()) {
        return true;
    }
    if (!sock_enter()) {
        errno = EAGAIN;
        return false;
    }
    sock_table_drop(fd);
    sock_leave();
    errno = error;
    return true;
}

int sock_descriptor_duplicated(int fd, int to)
{
    int error = errno;
    if (to < 0 || (!is_known(fd) && !is_known(to)) || !sock_process_is_own()) {
        return to;
    }
    if (!sock_enter()) {
        close(to);
        errno = EAGAIN;
        return -1;
    }
    sock_table_duplicate(fd, to);
    sock_leave();
    errno = error;
    return to;
}

bool sock_descriptor_may_replace(int fd, int to)
{
    return !is_known(to) || fcntl(fd, F_GETFD) < 0 || sock_descriptor_drop(to);
}

bool sock_descriptor_is_kernels(int fd)
{
    struct sock_conn *conn = sock_conn_of(fd);
    if (conn == NULL) {
        return true;
    }
    enum sock_state state = sock_conn_state(conn);
    sock_conn_put(conn);
    return state == SOCK_PLAIN || state == SOCK_LISTENING;
}

bool sock_descriptor_stays(int fd)
{
    struct sock_conn *conn = sock_conn_of(fd);
    if (conn == NULL) {
        return true;
    }
    bool stays = false;
    if (sock_enter()) {
        sock_conn_give_up(conn, SOCK_OPTION);
        stays = sock_conn_state(conn) < SOCK_MOVED;
        sock_conn_put(conn);
        sock_leave();
    }
    return stays;
}

void sock_descriptor_nonblocking(int fd, bool nonblocking)
{
    struct sock_conn *conn = sock_conn_of(fd);
    if (conn != NULL) {
        sock_options_nonblocking(conn, nonblocking);
        sock_conn_put(conn);
    }
}
