/* SPDX-License-Identifier: MIT */
/*
 * Taking completions off the rings of shared queues: by clients, and by the server for handlers; without a call or a lock.
 * A process that is killed at any instruction has taken an entry or has not.
 */
#ifndef VIPL_SHARE_RINGS_H
#define VIPL_SHARE_RINGS_H

#include "share/arena.h"

/* A ready descriptor is readable while its `signalled` is set. A process that adds something sets it, and makes the descriptor
 * readable if it was not set. A process that finds nothing clears both: the descriptor may be readable in vain until then,
 * but it is never unreadable while there is something. */
void vipl_ring_signal(struct vipl_waker *ready_fd, uint32_t *signalled);
/* Clears it if `ready` says that there is nothing, and asks again afterwards, because what came in between found it set. True:
 * there is nothing. */
bool vipl_ring_clear(struct vipl_waker *ready_fd, uint32_t *signalled, bool (*ready)(const void *what),
                     const void *what);

/* VIP_SUCCESS, VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE. */
VIP_RETURN vipl_ring_take(struct vipl_ring *ring, VIP_DESCRIPTOR **descriptor);

/* What an entry of a completion queue names. */
struct vipl_completion {
    uint32_t code; /* of the entry */
    void *vi;
    VIP_BOOLEAN recv;
};
/* Takes away the oldest entries that name nothing any more. VIP_SUCCESS: there is one left, in `code`. VIP_NOT_DONE: there is
 * none. VIP_NO_MATCH: one that was taken away, in `code`, names something after all, and has to be handed on. */
VIP_RETURN vipl_cq_ring_trim(struct vipl_arena *arena, struct vipl_cq_ring *cq, uint32_t *code);
/* VIP_SUCCESS, VIP_NOT_DONE, or VIP_NO_MATCH: the entry that was taken is of a VI which the client does not hold, and has
 * to be handed on. */
VIP_RETURN vipl_cq_ring_take(struct vipl_arena *arena, struct vipl_cq_ring *cq, unsigned client,
                             struct vipl_completion *out);
/* Whether a VI, completion queue or NIC handle is there and the client holds it. */
bool vipl_arena_holds(const struct vipl_arena *arena, unsigned client, const void *handle);

/* How many completions of the queue no process has been told of by a completion queue. */
uint32_t vipl_ring_to_announce(const struct vipl_ring *ring);

#endif
