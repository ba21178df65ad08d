/* SPDX-License-Identifier: MIT */
/*
 * Posting sends without a call. A client writes its posts into a ring of its own, which only the
 * server reads, and the server posts them. The client decides what VipPostSend() returns: it knows
 * what it holds, looks memory up in the table of regions, and claims room in the queue. What it
 * cannot decide becomes a call. VipPostRecv() is always a call: a message that is sent after
 * VipPostRecv() has returned must find the receive.
 *
 * Order. Every post takes a stamp. The server reads the next stamp, then the rings, and posts what
 * is older than that stamp, in the order of stamps. A client that posts because of another client's
 * post has the younger stamp, and the other post is in its ring by then.
 *
 * Death. An entry counts once `tail` is stored. A client that is killed before that leaves a claim
 * without an entry. The server finds such claims when the queue seems to be full; see
 * vipl_posts_claim().
 */
#ifndef VIPL_SHARE_POSTS_H
#define VIPL_SHARE_POSTS_H

#include "share/arena.h"

/* The value of `claiming` for a VI. */
static inline uint32_t vipl_posts_code(const void *vi)
{
    return 1 + vipl_handle_slot(vi);
}

/* Claims room for one descriptor in a send queue. Returns false if there is none, or if claims of
 * killed clients have taken it. */
bool vipl_posts_claim(struct vipl_ring *ring);

/* Claims room in the queue `ring`, and writes an entry into the client's own ring. Returns false,
 * and changes nothing, if either is full. Only one thread of the client may be in this function. */
bool vipl_posts_put(struct vipl_posts *posts, unsigned client, struct vipl_ring *ring,
                    const struct vipl_submission *entry);
/* After vipl_posts_put(): marks the client's ring for the server. Returns true if the server sleeps
 * and this caller must wake it. */
bool vipl_posts_mark_pending(struct vipl_posts *posts, unsigned client);
/* Reads the entry at an index that is below `tail`. Called by the server. */
struct vipl_submission vipl_posts_read(const struct vipl_submissions *ring, uint32_t index);

/* The table of regions. Only the server changes it. Several regions share an element: a reader that
 * finds another region there knows nothing about its own. vipl_posts_covers() returns true if the
 * element has this region, and the region has the bytes. */
void vipl_posts_enter_region(struct vipl_posts *posts, void *nic, void *address, size_t bytes,
                             VIP_MEM_HANDLE memory);
void vipl_posts_leave_region(struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory);
bool vipl_posts_covers(const struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory,
                       const void *address, size_t bytes);

#endif
