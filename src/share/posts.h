/* SPDX-License-Identifier: MIT */
/*
 * Posting sends without a call. A client writes what it posts into a ring of its own, and the server, which is the only one to
 * read it, posts it in its turn. What VipPostSend() returns is decided by the client: it knows what it holds, looks memory
 * up in the table of regions, and claims room in the queue. Whatever it cannot decide it leaves to a call. VipPostRecv() is
 * always a call: when it has returned, a message that is sent then must find the receive.
 *
 * Order. Every post takes a stamp. The server reads the next stamp, then the rings, and posts by stamps what is older. A client that posts
 * after it has heard of another one's post has the younger stamp, and that other post is in its ring by then.
 *
 * Death. An entry counts once `tail` is stored. A client that is killed before that leaves a claim without an entry, which the
 * server finds when the queue seems to be full, see vipl_posts_claim().
 */
#ifndef VIPL_SHARE_POSTS_H
#define VIPL_SHARE_POSTS_H

#include "share/arena.h"

/* Of a VI, for `claiming`. */
static inline uint32_t vipl_posts_code(const void *vi)
{
    return 1 + vipl_handle_slot(vi);
}

/* Takes room for one descriptor. False: there is none, or it is taken by claims whose clients were killed. */
bool vipl_posts_claim(struct vipl_ring *ring);

/* Writes an entry into a client's ring, with room for it in its queue. False: one of both is full, and nothing has happened. One
 * thread of the client at a time. */
bool vipl_posts_put(struct vipl_posts *posts, unsigned client, struct vipl_ring *ring,
                    const struct vipl_submission *entry);
/* After that: the server will look. True: it sleeps, and the caller is the one that has to wake it. */
bool vipl_posts_tell(struct vipl_posts *posts, unsigned client);
/* Reads the entry at an index that the server knows to be below `tail`. */
struct vipl_submission vipl_posts_read(const struct vipl_submissions *ring, uint32_t index);

/* Regions. A reader that finds another region in its place knows nothing of its own. */
void vipl_posts_enter_region(struct vipl_posts *posts, void *nic, void *address, size_t bytes,
                             VIP_MEM_HANDLE memory);
void vipl_posts_leave_region(struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory);
bool vipl_posts_covers(const struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory,
                       const void *address, size_t bytes);

#endif
