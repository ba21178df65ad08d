/* SPDX-License-Identifier: MIT */
/*
 * The server's side of posts (src/server/posts.c), compiled once more with a core that is the
 * test's: one send queue of VIPL_SHARE_DEPTH descriptors, which notes what is posted in which
 * order.
 */
#ifndef UNIT_SERVER_POSTS_H
#define UNIT_SERVER_POSTS_H

#include "share/posts.h"

/* Begins anew, with that arena and a queue for that VI, which all clients hold. */
void unit_posts_begin(struct vipl_arena *arena, void *vi);
void unit_posts_client(unsigned client); /* begins */
/* Is called once, when the server has read the next stamp and is about to look at the rings. */
void unit_posts_before_look(void (*function)(void *), void *argument);
void unit_posts_drain(void);
VIP_RETURN unit_posts_call(unsigned client, VIP_DESCRIPTOR *descriptor); /* VipPostSend() by a call */
/* What was posted so far, in that order: `count` of them, and those that were refused. */
struct unit_posted {
    VIP_DESCRIPTOR *descriptors[2 * VIPL_SHARE_DEPTH];
    unsigned count, refused;
};
const struct unit_posted *unit_posts_made(void);

#endif
