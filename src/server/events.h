/* SPDX-License-Identifier: MIT */
/* Handlers that clients have registered. A client calls its handlers itself, for what happens
 * in the server. */
#ifndef VIPL_SERVER_EVENTS_H
#define VIPL_SERVER_EVENTS_H

#include "share/arena.h"

void vipl_server_events_init(struct vipl_arena *arena);
/* Has a client call a handler. If the client's ring has no room, the call is counted and logged. */
void vipl_server_event(unsigned client, const struct vipl_call_handler *event);
/* Registers a handler for the next completion of a VI's queue, or of a completion queue. */
VIP_RETURN vipl_server_notify(unsigned client, uint32_t kind, const void *object,
                              const struct vipl_call_handler *handler);
/* Registers a client's error handler on a NIC handle; without error_handler, forgets the one it
 * has. `real`: the server's handle. */
VIP_RETURN vipl_server_error_handler(unsigned client, void *real, void *nic,
                                     const struct vipl_call_handler *handler);
void vipl_server_forget_handlers(unsigned client); /* all handlers of a client that has ended */
/* the client's error handler on a NIC handle */
void vipl_server_forget_nic(const void *nic, unsigned client);

#endif
