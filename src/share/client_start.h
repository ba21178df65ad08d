/* SPDX-License-Identifier: MIT */
/* Starting the server. */
#ifndef VIPL_SHARE_CLIENT_START_H
#define VIPL_SHARE_CLIENT_START_H

#include "share/arena.h"

/* What the first client has of a new server. */
struct vipl_server_link {
    struct vipl_arena *arena;
    int socket;
    int lifeline; /* readable once the server has ended */
};

/* Makes an arena, and starts a server for it: the program vipl-server or, if that cannot be run, a
 * fork of this process, which calls `forked` first. Returns 0 or an errno value. The caller holds
 * the client's lock (rank SHARE). */
int vipl_share_start(struct vipl_server_link *line, void (*forked)(void));

#endif
