/* SPDX-License-Identifier: MIT */
#include "sockets/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include "sockets/conn.h"
#include "sockets/options.h"
#include "sockets/process.h"
#include "sockets/real.h"

enum { MOST_LIBRARYS = 1 << 20 }; /* the library has no descriptor beyond */

static bool is_known(int fd)
{
    return sock_file_peek(fd) != NULL;
}

/* Whether the descriptor is the library's, so that the program has none of that number. */
static bool is_librarys(int fd)
{
    const struct sock_file *file = sock_file_peek(fd);
    return (file != NULL && file->kind == &sock_mark_kind) || vipl_fd_is_own(fd);
}

bool sock_descriptor_drop(int fd)
{
    int error = errno;
    if (is_librarys(fd) && sock_process_is_own()) {
        errno = EBADF;
        return false;
    }
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
    return (!is_known(to) && !is_librarys(to)) || fcntl(fd, F_GETFD) < 0 || sock_descriptor_drop(to);
}

static void drop_each(int fd, struct sock_file *file, void *unused)
{
    (void)unused;
    bool is_mark = file->kind == &sock_mark_kind;
    sock_file_put(file);
    if (!is_mark) {
        sock_table_drop(fd);
    }
}

int sock_descriptors_close(unsigned first, unsigned last, int flags)
{
    bool is_own = sock_process_is_own();
    if (first > last || (flags & CLOSE_RANGE_CLOEXEC) != 0 || !is_own) {
        return SOCK_REAL(close_range)(first, last, flags);
    }
    if (!sock_enter()) {
        errno = EAGAIN;
        return -1;
    }
    unsigned most = last < MOST_LIBRARYS ? last : MOST_LIBRARYS;
    int result = 0;
    sock_table_each(first, last, drop_each, NULL);
    for (unsigned fd = first; fd <= most && result == 0; fd++) {
        if (is_librarys((int)fd)) {
            result = first < fd ? SOCK_REAL(close_range)(first, fd - 1, flags) : 0;
            first = fd + 1;
        }
    }
    if (result == 0 && first <= last) {
        result = SOCK_REAL(close_range)(first, last, flags);
    }
    sock_leave();
    return result;
}

bool sock_descriptor_is_kernels(int fd)
{
    const struct sock_file *file = sock_file_peek(fd);
    return file == NULL || file->kind != &sock_conn_kind || sock_file_is_kernels(file);
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
