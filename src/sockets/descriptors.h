/* SPDX-License-Identifier: MIT */
/* What the calls on descriptors of any kind do beside the kernel's: they keep the table right. */
#ifndef VIPL_SOCKETS_DESCRIPTORS_H
#define VIPL_SOCKETS_DESCRIPTORS_H

#include <stdbool.h>

/* The descriptor is about to be closed. Returns false if it must not be, with errno set: it is the
 * library's, or the caller is a signal handler whose thread is inside the library. */
bool sock_descriptor_drop(int fd);
/* Does what close_range() does, but leaves the library's descriptors open. */
int sock_descriptors_close(unsigned first, unsigned last, int flags);
/* The kernel has made a duplicate, if `to` >= 0. Returns `to`; or -1 with errno set. */
int sock_descriptor_duplicated(int fd, int to);
/* Drops what `to` stands for, which is about to become a duplicate of `fd`. Returns false if it
 * must not, with errno set. */
bool sock_descriptor_may_replace(int fd, int to);
bool sock_descriptor_is_kernels(int fd); /* whether the kernel's socket has all bytes */
/* The program wants what only TCP can do. Returns false if the connection is moved. */
bool sock_descriptor_stays(int fd);
void sock_descriptor_nonblocking(int fd, bool nonblocking);

#endif
