/* SPDX-License-Identifier: MIT */
/* The server's process: its clients and their channels. */
#ifndef VIPL_SHARE_SERVER_H
#define VIPL_SHARE_SERVER_H

#include "share/arena.h"

/* What the server's process does, from its end of the first client's socket to the end of the last client. */
void vipl_server_run(struct vipl_arena *arena, int socket);

#endif
