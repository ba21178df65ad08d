/* SPDX-License-Identifier: MIT */
/*
 * Probes: how a client finds out that a VIPL program listens at a TCP port of another host, before
 * it sends that program anything.
 *
 * A thread of the library requests a connection of a VI, at once or not at all, to the listener's
 * name (lease.h) on the device that the rules name. Where a VIPL program listens, its responder
 * (responder.h) accepts, and the VI is a lease: the answer is remembered for as long as the VI is
 * connected, which costs later connections one look. The listener's end ends it, so a program that
 * does not know of VIPL and listens there next is not taken for one that does. Any other answer is
 * remembered for some seconds; then the next connection has a thread ask again, and does not wait
 * for it.
 */
#ifndef VIPL_SOCKETS_PROBE_H
#define VIPL_SOCKETS_PROBE_H

#include "sockets/mark.h"
#include "sockets/stats.h"

/* Asks whether a VIPL program listens at a place of another host that the device reaches, or says
 * what is remembered. Does not block. Returns true if that is known: *answer is
 * SOCK_MOVED_TO_VIPL, or why a connection stays with TCP. `device` is constant for as long as the
 * process lives. */
bool sock_probe_ask(const struct sock_address *place, const char *device, enum sock_reason *answer);
/* The VIs of a connection to the place could not be connected, though its program has answered:
 * connections stay with TCP for some seconds. */
void sock_probe_doubt(const struct sock_address *place, const char *device);
void sock_probes_forked(void);

#endif
