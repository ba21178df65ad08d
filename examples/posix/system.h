/* SPDX-License-Identifier: MIT */
/* What the examples ask of a POSIX system. windows/system.h has the same functions. */
#ifndef VIPL_EXAMPLE_SYSTEM_H
#define VIPL_EXAMPLE_SYSTEM_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t system_client; /* that this process has forked, or 0 */

/* Forks the client. Returns 1 in the client, and 0 in the process that goes on as the server. */
static inline int system_fork_client(void)
{
    system_client = fork();
    if (system_client < 0) {
        perror("fork");
        exit(1);
    }
    return system_client == 0;
}

/* Waits for the client that this process has forked, if there is one, to end. Returns 1 if that
 * client failed. */
static inline int system_client_failed(void)
{
    int status = 0;

    return system_client != 0 && (waitpid(system_client, &status, 0) != system_client || status != 0);
}

static inline int system_pipe(int ends[2])
{
    return pipe(ends);
}

#endif
