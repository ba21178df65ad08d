/* SPDX-License-Identifier: MIT */
/* Starting the server: what a client agrees on with the server's program, or with its fork. */
#ifndef VIPL_SHARE_START_H
#define VIPL_SHARE_START_H

#include "share/arena.h"

/* The byte that the server's program sends on the lifeline before it serves. A client also uses
 * these values for a program that sends nothing. */
enum vipl_server_start {
    VIPL_SERVER_FAILED, /* this value, or any other */
    VIPL_SERVER_RUNS,
    VIPL_SERVER_OTHER_VERSION,
    VIPL_SERVER_ADDRESS_TAKEN, /* an address of the arena or of a mapping is taken */
    /* running the program has changed its users, groups or capabilities */
    VIPL_SERVER_OTHER_RIGHTS,
    VIPL_SERVER_MISSING,
    VIPL_SERVER_NO_DESCRIPTOR /* a mapping that the server needs has no descriptor */
};
enum {
    VIPL_SERVER_MAPPINGS = 32, /* most mappings that the server gets */
    /* Equal in a client and a server that lay out the arena and the calls alike. */
    VIPL_SERVER_LAYOUT = sizeof(struct vipl_arena) % (1 << 20) * 64 + sizeof(struct vipl_call) % 64
};
/* A mapping as an argument of the server's program: descriptor, address, bytes, offset. */
#define VIPL_SERVER_MAPPING "%d:%llx:%llx:%llx"

/* Runs the server, with its end of the first client's socket, until the last client has ended. */
typedef void vipl_server_entry(struct vipl_arena *arena, int socket);
/* The server's function, for clients whose server is a fork. The build
 * defines it (backend_table.c). */
extern vipl_server_entry *const vipl_server_in_fork;

#endif
