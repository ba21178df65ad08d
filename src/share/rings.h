/* SPDX-License-Identifier: MIT */
/*
 * Taking completions off the rings of shared queues, without a call or a lock. Clients do it, and
 * the server does it for handlers. A process that is killed at any instruction either has taken an
 * entry or has not.
 */
#ifndef VIPL_SHARE_RINGS_H
#define VIPL_SHARE_RINGS_H

#include "share/arena.h"

/* A ready descriptor is readable while its `signalled` is set. A process that adds something sets
 * `signalled`, and makes the descriptor readable if it was not set. A process that finds nothing
 * clears both. So the descriptor may be readable in vain for a while, but it is never unreadable
 * while there is something. */
void vipl_ring_signal(struct vipl_waker *ready_fd, uint32_t *signalled);
/* Clears the ready descriptor if `ready` finds nothing, and then calls `ready` again, because what
 * came in between found `signalled` set. Returns true if there is nothing. */
bool vipl_ring_clear(struct vipl_waker *ready_fd, uint32_t *signalled, bool (*ready)(const void *what),
                     const void *what);

/* Takes the oldest completion of a work queue. Returns VIP_SUCCESS,
 * VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE. */
VIP_RETURN vipl_ring_take(struct vipl_ring *ring, VIP_DESCRIPTOR **descriptor);

/* What an entry of a completion queue names. */
struct vipl_completion {
    uint32_t code; /* the entry itself */
    void *vi;
    VIP_BOOLEAN recv;
};
/* Removes the oldest entries that name nothing any more. VIP_SUCCESS: an entry is left, and `code`
 * has it. VIP_NOT_DONE: none is left. VIP_NO_MATCH: a removed entry, in `code`, names something
 * again, and the caller must hand it on. */
VIP_RETURN vipl_cq_ring_trim(struct vipl_arena *arena, struct vipl_cq_ring *cq, uint32_t *code);
/* Takes the oldest entry that names something. Returns VIP_SUCCESS, VIP_NOT_DONE, or VIP_NO_MATCH:
 * the entry is of a VI that the client does not hold, and the caller must hand it on. */
VIP_RETURN vipl_cq_ring_take(struct vipl_arena *arena, struct vipl_cq_ring *cq, unsigned client,
                             struct vipl_completion *out);
/* Whether a VI, completion queue or NIC handle exists, and the client holds it. */
bool vipl_arena_holds(const struct vipl_arena *arena, unsigned client, const void *handle);

/* How many completions of the work queue its completion queue has not named to any process. */
uint32_t vipl_ring_to_announce(const struct vipl_ring *ring);

#endif
