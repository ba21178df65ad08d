/* SPDX-License-Identifier: MIT */
/* The server makes its clients' calls. The functions take the locks that they need,
 * and may block. */
#ifndef VIPL_SERVER_CALLS_H
#define VIPL_SERVER_CALLS_H

#include "share/arena.h"

void vipl_server_calls_init(struct vipl_arena *shared);
bool vipl_server_needs_rights(const struct vipl_call *call);
void vipl_server_make_call(unsigned client, struct vipl_call *call);
/* Drops all references of a client, on one NIC handle or (NULL) on everything, and ends the objects
 * that have no client left. Returns false if a stopped peer may still write to a region: the client
 * still holds that region and what comes after it, and the caller tries again later. */
bool vipl_server_release(unsigned client, const void *nic);

#endif
