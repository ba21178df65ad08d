/* SPDX-License-Identifier: MIT */
/* The server's side of the sends that clients post without a call (share/posts.h). The functions
 * take the lock of posts (rank POSTS). */
#ifndef VIPL_SERVER_POSTS_H
#define VIPL_SERVER_POSTS_H

#include "share/posts.h"

/* Starts the thread that posts. Returns false if that fails. */
bool vipl_server_posts_start(struct vipl_arena *arena);
/* A client begins to use its ring; a client has ended, and what it has posted is posted. */
void vipl_server_posts_begin(unsigned client);
void vipl_server_posts_end(unsigned client);
/* Posts what clients have posted before this call. */
void vipl_server_posts_drain(void);
/* The send queue of a new VI begins. No client can post to it yet. */
void vipl_server_posts_open(const void *vi);
/* Posts a send for a client that waits for the result. */
VIP_RETURN vipl_server_post(unsigned client, void *vi, const struct vipl_call_post *post);
/* Enters a region into the table for clients, and removes it. */
void vipl_server_posts_region(void *nic, void *address, size_t bytes, VIP_MEM_HANDLE memory);
void vipl_server_posts_no_region(const void *nic, VIP_MEM_HANDLE memory);

#endif
