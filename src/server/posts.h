/* SPDX-License-Identifier: MIT */
/* The sends that clients post without a call (share/posts.h), in the server. */
#ifndef VIPL_SERVER_POSTS_H
#define VIPL_SERVER_POSTS_H

#include "share/posts.h"

/* Starts the thread that posts. False: there cannot be one. */
bool vipl_server_posts_start(struct vipl_arena *arena);
/* A client begins to use its ring, or does not any more: what it has posted is posted. */
void vipl_server_posts_begin(unsigned client);
void vipl_server_posts_end(unsigned client);
/* Posts all that has been posted in time before this call. */
void vipl_server_posts_drain(void);
/* The send queue of a VI begins, before anybody can post to it. */
void vipl_server_posts_open(const void *vi);
/* Posts a send for a client that waits for what this returns. */
VIP_RETURN vipl_server_post(unsigned client, void *vi, const struct vipl_call_post *post);
/* Tells clients of a region, and that it ends. */
void vipl_server_posts_region(void *nic, void *address, size_t bytes, VIP_MEM_HANDLE memory);
void vipl_server_posts_no_region(const void *nic, VIP_MEM_HANDLE memory);

#endif
