/* SPDX-License-Identifier: MIT */
/* What a client and the server send each other over the client's socket. */
#ifndef VIPL_SHARE_NOTE_H
#define VIPL_SHARE_NOTE_H

#include "share/call.h"

enum vipl_note_name {
    VIPL_NOTE_NUMBER,  /* the server's first: which client this is */
    VIPL_NOTE_CHANNEL, /* asks for a channel: its number is the answer */
    VIPL_NOTE_READY_FD, /* asks for the ready descriptor of a queue or completion queue: attached to the answer */
    VIPL_NOTE_FORK,     /* a child is about to be forked: its socket is attached; no answer */
    VIPL_NOTE_HERE,     /* the child's first: the system says which process it is; no answer */
    VIPL_NOTE_CALL,     /* a call that needs rights, before the channel makes it; no answer */
    VIPL_NOTE_CANCEL /* ends the blocking call of a channel; no answer */
};
struct vipl_note {
    uint32_t name;   /* enum vipl_note_name */
    uint32_t number; /* the channel; READY_FD: 1 for the receive queue; NUMBER: the client */
    void *handle;    /* READY_FD */
};
/* A note with a call that needs rights. Such a call comes through the socket, where the system says which process sent it:
 * every process that has the arena could write it into any channel. */
struct vipl_call_note {
    struct vipl_note note;
    struct vipl_call call; /* as many bytes as this call has */
};

static inline size_t vipl_call_note_bytes(uint32_t call_name)
{
    return offsetof(struct vipl_call_note, call) + vipl_call_bytes(call_name);
}

#endif
