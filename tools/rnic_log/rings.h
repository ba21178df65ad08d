/* SPDX-License-Identifier: MIT */
/*
 * What an access to memory is about. The places of a function's rings are known from the stores to
 * its registers and from its commands: the log has to be followed from the function's start.
 */
#ifndef RNIC_LOG_RINGS_H
#define RNIC_LOG_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/rnic/card/card.h"

enum ring_kind {
    RING_COMMAND,
    RING_ANSWER,
    RING_EVENT,
    RING_COMPLETION,
    RING_SEND,
    RING_RECEIVE,
    RING_WINDOW,  /* no ring: the header of a slot of a window */
    RING_PAYLOAD, /* of a slot */
    RING_STORE,   /* no ring: a store into a page of the AOTF space that has a template */
};

struct ring_entry {
    enum ring_kind kind;
    /* the queue pair of a work entry, a window or a store, the queue of a completion */
    uint32_t object;
    const uint8_t *bytes; /* of all but the owner's word of an answer, event or completion */
    bool big;             /* their byte order */
    /* Of an answer: the command, 64 bytes; NULL: it came before the log's beginning. */
    const uint8_t *command;
    /* Of a store: where it goes to at the peer. */
    uint64_t remote_address;
    uint32_t remote_stag;
};

struct rings;

/* Returns NULL if there is no memory. */
struct rings *rings_new(void);
void rings_free(struct rings *rings);
/* Follows one transaction. Returns whether it is a DMA of an entry, or of a window or a store of a
 * known queue pair, which *entry describes until the next call. */
bool rings_follow(struct rings *rings, const struct rnic_transaction *c, struct ring_entry *entry);

#endif
