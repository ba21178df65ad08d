/* SPDX-License-Identifier: MIT */
/* The system's own ppoll(). */
#include "os/posix/ppoll.h"

int vipl_ppoll(struct pollfd *set, nfds_t count, const struct timespec *timeout, const void *mask)
{
    return ppoll(set, count, timeout, mask);
}
