/* SPDX-License-Identifier: MIT */
/* Descriptors that have their flags from the moment that they are made. */
#include "os/posix/descriptor.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

int vipl_fd_socket(int family, int type)
{
    return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int vipl_fd_socket_pair(int type, int fds[2])
{
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
}

int vipl_fd_accept(int listener, struct sockaddr *peer, socklen_t *size)
{
    return accept4(listener, peer, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int vipl_fd_pipe(int fds[2], bool blocks)
{
    return pipe2(fds, blocks ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK);
}

int vipl_fd_copy_to(int from, int to)
{
    return dup3(from, to, O_CLOEXEC);
}

ssize_t vipl_fd_receive(int socket, struct msghdr *message, int flags)
{
    return recvmsg(socket, message, flags | MSG_CMSG_CLOEXEC);
}
