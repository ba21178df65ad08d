/* SPDX-License-Identifier: MIT */
/*
 * Calls that make descriptors, inside src/os. No descriptor that they make survives exec, and no
 * socket blocks or raises SIGPIPE. Each returns what the system's call returns, with its errno; the
 * caller is between vipl_fd_begin() and vipl_fd_end(), and adopts what it gets.
 */
#ifndef VIPL_OS_POSIX_DESCRIPTOR_H
#define VIPL_OS_POSIX_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

int vipl_fd_socket(int family, int type);
int vipl_fd_socket_pair(int type, int fds[2]); /* of AF_UNIX */
/* `peer` may be NULL. */
int vipl_fd_accept(int listener, struct sockaddr *peer, socklen_t *size);
int vipl_fd_pipe(int fds[2], bool blocks);
/* Makes `to` a duplicate of `from`. The number is never free in between. */
int vipl_fd_copy_to(int from, int to);
/* Receives bytes and descriptors, as recvmsg() does. */
ssize_t vipl_fd_receive(int socket, struct msghdr *message, int flags);

#endif
