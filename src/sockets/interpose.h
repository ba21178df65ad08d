/* SPDX-License-Identifier: MIT */
/* Calls as the program makes them, for files of this library, whose own calls are the kernel's. */
#ifndef VIPL_SOCKETS_INTERPOSE_H
#define VIPL_SOCKETS_INTERPOSE_H

#include <stddef.h>
#include <sys/types.h>

ssize_t sock_program_recv(int fd, void *to, size_t size, int flags);
ssize_t sock_program_send(int fd, const void *from, size_t size, int flags);
int sock_program_close(int fd);

#endif
