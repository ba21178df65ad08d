/* SPDX-License-Identifier: MIT */
/* How descriptors become connections and listeners. The caller is inside the library. */
#ifndef VIPL_SOCKETS_ATTACH_H
#define VIPL_SOCKETS_ATTACH_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether an address may be a TCP port's. */
bool sock_is_inet(const struct sockaddr *address, socklen_t length);
/* The kernel has connected a socket, or has begun to (EINPROGRESS, EINTR). */
void sock_attach_connected(int fd, const struct sockaddr *to, socklen_t length);
/* The kernel's socket listens. */
void sock_attach_listener(int fd);
/* The kernel has accepted a connection, from this address; NULL: it has not been asked for. */
void sock_attach_accepted(int listener, int fd, bool nonblocking, const struct sockaddr *from,
                          socklen_t length);
/* This program has been started with these descriptors: takes up listeners, and connections whose
 * peer may have sent HELLO. */
void sock_attach_inherited(void);
/* The same for a descriptor that another process has passed to this one. */
void sock_attach_received(int fd);

#endif
