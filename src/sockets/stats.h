/* SPDX-License-Identifier: MIT */
/*
 * Counts what became of the program's connections, each with its reason. They are in memory that
 * `vipl-run --stats-of PID` finds by its name among the descriptors of the process, and are printed
 * when the process ends if `vipl-run --stats` has asked for that (VIPL_SOCKETS_STATS). A forked
 * child counts from 0.
 */
#ifndef VIPL_SOCKETS_STATS_H
#define VIPL_SOCKETS_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "sockets/program.h"

/* Why a connection is with TCP, or has failed. The numbers are sent in DECLINE (hello.h): new ones
 * go to the end. */
enum sock_reason {
    SOCK_MOVED_TO_VIPL = 0,
    SOCK_BY_RULE = 1,       /* the rules say tcp, or no rule names the other host */
    SOCK_NO_MARK = 2,       /* no VIPL program listens at the port */
    SOCK_OTHER_USER = 3,    /* the other end is another user's */
    SOCK_NO_DEVICE = 4,     /* the device cannot be opened */
    SOCK_NO_STREAM = 5,     /* no memory, or no VI */
    SOCK_OTHER_DEVICE = 6,  /* the peer has another device */
    SOCK_OTHER_VERSION = 7, /* the peer has another version of the handshake */
    SOCK_NOT_CONNECTED = 8, /* the VIs could not be connected: refused, timed out, or too many at once */
    SOCK_PEER_PLAIN = 9,    /* the peer does not know of VIPL: its first bytes were data */
    SOCK_WROTE_FIRST = 10,  /* the server wrote before HELLO came */
    SOCK_BAD_HELLO = 11,    /* the peer's bytes were no message of the handshake */
    SOCK_OPTION = 12,       /* the program uses something that only TCP has */
    SOCK_NO_REPLY = 13,     /* the server had not replied when the client wanted to write */
    SOCK_FORKED = 14,       /* the process was forked meanwhile */
    SOCK_SHUT_DOWN = 15,    /* the program has called shutdown() before it has written or read */
    SOCK_NO_ANSWER = 16,    /* the device does not reach the other host, or nothing answers there */
    SOCK_TOO_SHORT = 17,    /* connections to the place have been too short to be moved */
    SOCK_REASONS
};
/* A short text, as in "no VIPL program listens at the port". */
const char *sock_reason_text(enum sock_reason reason);

/* A connection of this process has been moved (SOCK_MOVED_TO_VIPL), or stays with TCP. */
void sock_stats_count(enum sock_reason reason);
/* A connection was reset in the handshake, because the peer did what no peer may. */
void sock_stats_lost(void);
/* Prints the counts on standard error if that was asked for, once. exit() does so by itself; a
 * process that ends in another way calls this function first. */
void sock_stats_print(void);

/* --- counts of a process, as they are in memory (stats_text.c) -------------------------------- */

#define SOCK_STATS_NAME "vipl-sockets-stats" /* of the memory */
#define SOCK_STATS_MAGIC 0x53544132u         /* changes with the layout */

/* The counts are atomic, relaxed. */
struct sock_stats {
    uint32_t magic; /* constant, as the next two */
    uint32_t pid;
    char program[SOCK_PROGRAM_BYTES];
    uint32_t lost;
    uint32_t counts[SOCK_REASONS];
};
enum { SOCK_STATS_TEXT_BYTES = 1664 };
/* Writes the counts as lines of text. Returns the length. */
size_t sock_stats_text(const struct sock_stats *stats, char text[SOCK_STATS_TEXT_BYTES]);

#endif
