/* SPDX-License-Identifier: MIT */
/* Starting the server. */
#ifndef VIPL_SHARE_CLIENT_START_H
#define VIPL_SHARE_CLIENT_START_H

#include "share/arena.h"

/* What a first client has of a new server. */
struct vipl_line {
    struct vipl_arena *arena;
    int socket;
    int lifeline; /* readable once the server has ended */
};

/* Makes an arena and starts a server for it: the program vipl-server, or, where that cannot be, a fork of this process, which calls
 * `forked` first. 0, or an errno value. */
int vipl_share_start(struct vipl_line *line, void (*forked)(void));

#endif
