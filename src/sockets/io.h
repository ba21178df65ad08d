/* SPDX-License-Identifier: MIT */
/* Reading and writing. The functions return what the kernel's calls would, with errno set, or
 * SOCK_KERNEL: the connection is the kernel's, and the caller makes the kernel's call. The caller
 * has a reference to the connection, and is inside the library (real.h). */
#ifndef VIPL_SOCKETS_IO_H
#define VIPL_SOCKETS_IO_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct sock_conn;

enum { SOCK_KERNEL = -2 };

/* `flags` are those of recv(), and SOCK_OF_FILES for calls that are not of sockets alone: read(),
 * readv(), writev(). */
enum { SOCK_OF_FILES = 1 << 28 };
ssize_t sock_io_receive(struct sock_conn *conn, const struct iovec *pieces, size_t count, int flags);
/* `flags` are those of send(). EPIPE: the caller raises SIGPIPE, unless MSG_NOSIGNAL is set. */
ssize_t sock_io_send(struct sock_conn *conn, const struct iovec *pieces, size_t count, int flags);
/* Sends from a file, which is read at *offset, or where the file is if `offset` is NULL. */
ssize_t sock_io_send_file(struct sock_conn *conn, int from, off64_t *offset, size_t size);
int sock_io_shutdown(struct sock_conn *conn, int how);

#endif
