/* SPDX-License-Identifier: MIT */
/* Copies through a pipe: the system reports memory that is not there. */
#ifndef VIPL_OS_POSIX_PIPE_COPY_H
#define VIPL_OS_POSIX_PIPE_COPY_H

#include <stddef.h>

/* As vipl_copy_checked(). */
int vipl_copy_by_pipe(char *to, const char *from, size_t bytes);

#endif
