/* SPDX-License-Identifier: MIT */
/*
 * Responders: what tells clients of other hosts that a VIPL program listens at a TCP port (the
 * clients' side is probe.h).
 *
 * A responder belongs to a listening socket for which the rules name a device. It has a thread of
 * the library and a NIC handle, waits there for connection requests for the listener's name
 * (lease.h), and accepts each one: the VI is the client's lease. The requests come before any
 * connection, from anybody whom the device reaches: each is accepted by a thread of its own, so
 * that a client that does not go on holds up no other, and their number has a limit. A responder
 * ends with the last descriptor of its listener. Forked children do not inherit it: one that
 * accepts a connection starts its own.
 */
#ifndef VIPL_SOCKETS_RESPONDER_H
#define VIPL_SOCKETS_RESPONDER_H

#include <stdbool.h>

#include "sockets/mark.h"

struct sock_responder;

/* Starts a responder for a listener: probes find it from now on. `device` is constant for as long
 * as the process lives. NULL: no memory, no thread, or the device cannot be opened, which has been
 * logged. */
struct sock_responder *sock_responder_new(const struct sock_address *place, const char *device);
/* The responder of a listener whose former one may be the parent's. Returns the one that it has
 * now, or NULL. */
struct sock_responder *sock_responder_keep(struct sock_responder *responder);
/* Returns true if a client has a lease. */
bool sock_responder_has_clients(struct sock_responder *responder);
void sock_responder_free(struct sock_responder *responder);

#endif
