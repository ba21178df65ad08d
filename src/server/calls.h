/* SPDX-License-Identifier: MIT */
/* The server makes its clients' calls. */
#ifndef VIPL_SERVER_CALLS_H
#define VIPL_SERVER_CALLS_H

#include "share/arena.h"

void vipl_server_calls_init(struct vipl_arena *shared);
bool vipl_server_needs_rights(const struct vipl_call *call);
void vipl_server_make_call(unsigned client, struct vipl_call *call);
/* Drops all of a client's references, on one NIC handle or (NULL) on everything, and ends the objects that have no client left.
 * False: a peer that is stopped may still write to a region. The client holds that region still, and what comes after it;
 * to be tried again later. */
bool vipl_server_release(unsigned client, const void *nic);

#endif
