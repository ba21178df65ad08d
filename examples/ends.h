/* SPDX-License-Identifier: MIT */
/* The two ends of an example, a server and a client, are two processes: which one this is. */
#ifndef VIPL_EXAMPLE_ENDS_H
#define VIPL_EXAMPLE_ENDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system.h" /* of the folder posix or windows: the build chooses */

enum end { SERVER, CLIENT };

/* The argument says which end this process is: "server" or "client". Without an argument the
 * process forks, where the system can: the child is the client. Programs call this before
 * VipOpenNic(): handles do not cross a fork. */
static inline enum end ends_begin(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "server") == 0) {
        return SERVER;
    }
    if (argc == 2 && strcmp(argv[1], "client") == 0) {
        return CLIENT;
    }
    if (argc != 1) {
        fprintf(stderr, "usage: %s [server | client]\n", argv[0]);
        exit(2);
    }
    return system_fork_client() ? CLIENT : SERVER;
}

#endif
