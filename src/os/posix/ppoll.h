/* SPDX-License-Identifier: MIT */
/* Sleeping under another signal mask, inside src/os. */
#ifndef VIPL_OS_POSIX_PPOLL_H
#define VIPL_OS_POSIX_PPOLL_H

#include <poll.h>
#include <time.h>

/* ppoll(), whose signal mask is set and restored in one step with the sleep. */
int vipl_ppoll(struct pollfd *set, nfds_t count, const struct timespec *timeout, const void *mask);

#endif
