/* SPDX-License-Identifier: MIT */
/* What the examples ask of Windows. posix/system.h has the same functions. */
#ifndef VIPL_EXAMPLE_SYSTEM_H
#define VIPL_EXAMPLE_SYSTEM_H

#include <fcntl.h>
#include <io.h>      /* read(), write() */
#include <process.h> /* getpid() */
#include <stdio.h>
#include <stdlib.h>

/* There is no fork(): the user starts both ends. */
static inline int system_fork_client(void)
{
    fputs("Windows has no fork(): start this program twice, with the arguments \"server\" and \"client\"\n",
          stderr);
    exit(2);
}

/* This process has forked no client, so none of its own failed. */
static inline int system_client_failed(void)
{
    return 0;
}

static inline int system_pipe(int ends[2])
{
    return _pipe(ends, 256, _O_BINARY);
}

#endif
