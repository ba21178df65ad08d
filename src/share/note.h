/* SPDX-License-Identifier: MIT */
/* Notes: what a client and the server send each other over the client's socket. */
#ifndef VIPL_SHARE_NOTE_H
#define VIPL_SHARE_NOTE_H

#include "share/call.h"

enum vipl_note_name {
    VIPL_NOTE_NUMBER,  /* the server's first note: the number of this client */
    VIPL_NOTE_CHANNEL, /* asks for a channel; the reply has its number */
    /* Asks for the ready descriptor of a work queue or completion queue, which comes
     * with the reply. */
    VIPL_NOTE_READY_FD,
    VIPL_NOTE_FORK, /* a child is about to be forked: its socket comes along; no reply */
    /* the child's first note, with which the system says which process it is; no reply */
    VIPL_NOTE_HERE,
    VIPL_NOTE_CALL,  /* a call that needs rights, sent before the channel is used; no reply */
    VIPL_NOTE_CANCEL /* ends the blocking call of a channel; no reply */
};
struct vipl_note {
    uint32_t name; /* enum vipl_note_name */
    /* the channel; VIPL_NOTE_READY_FD: 1 for the receive queue; VIPL_NOTE_NUMBER: the client */
    uint32_t number;
    void *handle; /* of VIPL_NOTE_READY_FD */
};
/* A note with a call that needs rights. Such a call is sent through the socket, because the
 * system then says which process sent it. Every process that has the arena could write the call
 * into any channel. */
struct vipl_call_note {
    struct vipl_note note;
    struct vipl_call call; /* only the bytes of this call are sent */
};

static inline size_t vipl_call_note_bytes(uint32_t call_name)
{
    return offsetof(struct vipl_call_note, call) + vipl_call_bytes(call_name);
}

#endif
