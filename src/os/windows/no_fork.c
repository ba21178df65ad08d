/* SPDX-License-Identifier: MIT */
/* A system without fork: the process is the one that loaded the library. */
#include "os/os.h"

uint32_t vipl_fork_generation(void)
{
    return 1;
}

int vipl_fork_watch(void (*child)(void), bool handlers)
{
    (void)child;
    (void)handlers;
    return 0;
}

void vipl_fd_disown(int fd)
{
    (void)fd; /* a number is of the library's own table alone */
}
