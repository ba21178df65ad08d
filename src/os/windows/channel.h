/* SPDX-License-Identifier: MIT */
/* Ends of pipes, inside src/os/windows: what local.c listens with, and what it connects. */
#ifndef VIPL_OS_WINDOWS_CHANNEL_H
#define VIPL_OS_WINDOWS_CHANNEL_H

#include "os/windows/owner.h"
#include "os/windows/port.h"

struct vipl_listener;
struct vipl_arrived;

enum {
    VIPL_CHANNEL_BYTES = 1024, /* the longest message */
    VIPL_CHANNEL_PASSED = 16   /* the most sections that one end passes */
};

/* A message as it goes through the pipe. */
struct vipl_frame {
    uint64_t passed[2]; /* handles of the sender's, to be taken from there; 0: none */
    unsigned char bytes[VIPL_CHANNEL_BYTES];
};

/* One end of a pipe. It is freed by its closing, or by the thread of port.c if that has it then. */
struct vipl_channel {
    struct vipl_object object;          /* the first field; has a number once it is connected */
    struct vipl_listener *of;           /* guarded by local.c's lock; NULL: no listener has the end */
    struct vipl_channel *next;          /* guarded by local.c's lock: of the same listener */
    struct vipl_owner peer;             /* constant once it has a number */
    struct vipl_io io;                  /* the caller's arrival, then each read */
    SRWLOCK lock;                       /* guards all below; taken before vipl_objects */
    HANDLE pipe;                        /* NULL: closed */
    HANDLE written;                     /* the event of the one write */
    bool is_busy;                       /* the thread of port.c has it */
    bool has_ended;                     /* nothing more comes */
    unsigned count;                     /* messages that have arrived */
    struct vipl_arrived *first;         /* of them */
    struct vipl_arrived **last;         /* where the next one goes */
    HANDLE passed[VIPL_CHANNEL_PASSED]; /* duplicates that the peer may take until this end closes */
    unsigned passed_count;
    struct vipl_frame in; /* the message that is being read */
};

/* Makes an end of a pipe. The pipe is closed on failure. */
int vipl_channel_open(HANDLE pipe, struct vipl_channel **out);
/* Has the thread of port.c call io.begin(). */
int vipl_channel_begin(struct vipl_channel *channel);
/* Begins to wait for a caller, in that thread. */
enum vipl_caller {
    VIPL_CALLER_HERE,
    VIPL_CALLER_LATER, /* that thread has the end again */
    VIPL_CALLER_NEVER  /* the system says no */
};
enum vipl_caller vipl_channel_await(struct vipl_channel *channel);
/* Gives a connected end a number, and begins to read. ECONNREFUSED: the server of the pipe is
 * another user's. On failure the caller still has the end. */
int vipl_channel_connected(struct vipl_channel *channel, bool is_server, int *fd);
void vipl_channel_close(struct vipl_channel *channel);
/* For the thread of port.c, whose turn with the end is over. Returns false if the end has been
 * closed meanwhile: it is freed. */
bool vipl_channel_is_back(struct vipl_channel *channel);

#endif
