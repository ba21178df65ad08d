/* SPDX-License-Identifier: MIT */
/* What the other files need of the waiting calls: how they see descriptors come, change and go. */
#ifndef VIPL_SOCKETS_WAIT_H
#define VIPL_SOCKETS_WAIT_H

struct sock_conn;

/* A descriptor that was the kernel's alone is a connection's from now on: connect() has been called
 * for a socket that may already be in epoll sets. No lock is held. */
void sock_epoll_adopt(int fd, struct sock_conn *conn);

#endif
