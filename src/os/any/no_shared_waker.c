/* SPDX-License-Identifier: MIT */
/* A system without wakers that processes share: one cannot pass what it waits for to another, or a
 * writer would depend on its reader, as of a pipe. Peers wake by a byte on the link's socket. */
#include <errno.h>

#include "os/os.h"

int vipl_shared_waker_open(int *fd)
{
    *fd = -1;
    return ENOTSUP;
}

bool vipl_shared_waker_is_valid(int fd)
{
    (void)fd;
    return false;
}

void vipl_shared_waker_signal(int fd)
{
    (void)fd;
}
