/* SPDX-License-Identifier: MIT */
/* Streams of the C library on connections. Its own reading and writing does not come through the
 * functions that this library replaces: a connection that can stay with TCP does, and one that has
 * been moved is read and written by functions of its own. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/deadline.h"
#include "sockets/conn.h"
#include "sockets/interpose.h"
#include "sockets/process.h"
#include "sockets/real.h"

enum { STRIP_MS = 100 };

static int fd_of(void *cookie)
{
    return (int)(intptr_t)cookie;
}

static ssize_t read_cookie(void *cookie, char *to, size_t size)
{
    return sock_program_recv(fd_of(cookie), to, size, 0);
}

static ssize_t write_cookie(void *cookie, const char *from, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t sent = sock_program_send(fd_of(cookie), from + done, size - done, 0);
        if (sent < 0) {
            return done > 0 ? (ssize_t)done : 0; /* 0 is what fopencookie() takes for an error */
        }
        done += (size_t)sent;
    }
    return (ssize_t)done;
}

static int close_cookie(void *cookie)
{
    return sock_program_close(fd_of(cookie));
}

static FILE *open_cookie(int fd, const char *mode)
{
    FILE *file = fopencookie((void *)(intptr_t)fd, mode,
                             (cookie_io_functions_t){read_cookie, write_cookie, NULL, close_cookie});
    if (file != NULL) {
        file->_fileno = fd; /* for fileno() */
    }
    return file;
}

/* Has a connection that is not moved stay with TCP, without bytes of the handshake before the
 * program's. Returns false if it is moved. */
static bool stays(int fd, struct sock_conn *conn)
{
    sock_conn_await(conn, POLLOUT, true, vipl_deadline(STRIP_MS));
    sock_conn_give_up(conn, SOCK_OPTION);
    sock_conn_await(conn, POLLIN, true, vipl_deadline(STRIP_MS));
    bool is_kernels = sock_conn_state(conn) < SOCK_MOVED;
    if (is_kernels) {
        sock_table_drop(fd);
    }
    return is_kernels;
}

FILE *fdopen(int fd, const char *mode)
{
    struct sock_conn *conn = sock_conn_of(fd);
    bool is_moved = false;
    if (conn != NULL && sock_process_is_own() && sock_enter()) {
        is_moved = sock_conn_state(conn) != SOCK_LISTENING && !stays(fd, conn);
        sock_conn_put(conn);
        sock_leave();
    } else if (conn != NULL) {
        sock_conn_put(conn);
    }
    return is_moved ? open_cookie(fd, mode) : SOCK_REAL(fdopen)(fd, mode);
}

/* --- dprintf() --- */

/* What programs are compiled to with _FORTIFY_SOURCE; no header declares them. */
int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list list);

static bool is_connection(int fd)
{
    struct sock_conn *conn = sock_conn_of(fd);
    if (conn != NULL) {
        sock_conn_put(conn);
    }
    return conn != NULL;
}

static int print(int fd, const char *format, va_list list)
{
    char *text;
    int length = vasprintf(&text, format, list);
    if (length < 0) {
        return -1;
    }
    bool is_sent = write_cookie((void *)(intptr_t)fd, text, (size_t)length) == length;
    int error = errno;
    free(text);
    errno = error;
    return is_sent ? length : -1;
}

int vdprintf(int fd, const char *format, va_list list)
{
    return is_connection(fd) ? print(fd, format, list) : SOCK_REAL(vdprintf)(fd, format, list);
}

int dprintf(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = is_connection(fd) ? print(fd, format, list) : SOCK_REAL(vdprintf)(fd, format, list);
    va_end(list);
    return result;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
    return is_connection(fd) ? print(fd, format, list) : SOCK_REAL(__vdprintf_chk)(fd, flag, format, list);
}

int __dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result =
        is_connection(fd) ? print(fd, format, list) : SOCK_REAL(__vdprintf_chk)(fd, flag, format, list);
    va_end(list);
    return result;
}
