/* SPDX-License-Identifier: MIT */
/* Flags and options of connections. The kernel's socket keeps its own, for the time before the move
 * and for connections that stay. Return values are as in io.h. */
#ifndef VIPL_SOCKETS_OPTIONS_H
#define VIPL_SOCKETS_OPTIONS_H

#include <stdbool.h>
#include <sys/socket.h>

struct sock_conn;

/* Reads what the program has set before the connection was made. */
void sock_options_read(struct sock_conn *conn, int fd);
/* The same for a connection that the kernel has accepted: it has the listener's options. */
void sock_options_inherit(struct sock_conn *conn, const struct sock_conn *listener);
/* Whether a connection remembers the option, and a listener for those that it will accept. */
bool sock_options_knows(int level, int name);
/* The kernel has set an option. */
void sock_options_set(struct sock_conn *conn, int level, int name, const void *value, socklen_t length);
/* Returns false if the connection cannot have the option any more, because it is moved. */
bool sock_options_may_set(struct sock_conn *conn, int level, int name);
int sock_options_get(struct sock_conn *conn, int level, int name, void *value, socklen_t *length);
int sock_options_ioctl(struct sock_conn *conn, unsigned long command, void *argument);
/* The kernel has done an fcntl() or ioctl(). */
void sock_options_nonblocking(struct sock_conn *conn, bool nonblocking);

#endif
