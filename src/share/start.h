/* SPDX-License-Identifier: MIT */
/* Starting the server: what a client and the server's program, or its fork, agree on. */
#ifndef VIPL_SHARE_START_H
#define VIPL_SHARE_START_H

#include "share/arena.h"

/* What the server's program says on the lifeline, in one byte, before it serves; or the client, of a program that says nothing. */
enum vipl_server_start {
    VIPL_SERVER_FAILED, /* also: anything else */
    VIPL_SERVER_RUNS,
    VIPL_SERVER_OTHER_VERSION,
    VIPL_SERVER_ADDRESS_TAKEN, /* of the arena or of a mapping */
    VIPL_SERVER_OTHER_RIGHTS,  /* running a program has changed its users, groups or capabilities */
    VIPL_SERVER_MISSING,
    VIPL_SERVER_NO_DESCRIPTOR /* of a mapping that the server is to have */
};
enum {
    VIPL_SERVER_MAPPINGS = 32, /* at most */
    /* Equal in a client and a server that read the same memory and notes. */
    VIPL_SERVER_LAYOUT = sizeof(struct vipl_arena) % (1 << 20) * 64 + sizeof(struct vipl_call) % 64
};
/* How a mapping is written for the server's program: descriptor, address, bytes, offset. */
#define VIPL_SERVER_MAPPING "%d:%llx:%llx:%llx"

/* What the server's process does, from its end of the first client's socket to the end of the last client. */
typedef void vipl_server_entry(struct vipl_arena *arena, int socket);
/* For clients whose server is a fork; the build puts it here (backend_table.c). */
extern vipl_server_entry *const vipl_server_in_fork;

#endif
