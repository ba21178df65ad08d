/* SPDX-License-Identifier: MIT */
/*
 * What this process remembers of the places of this host that it connects to, so that a program
 * that connects for each request pays little for what gains it nothing.
 *
 * Moving a connection takes as long as some dozens of its messages save. So a moved connection that
 * ends after fewer messages is a loss of its place. A place may have 16 losses at once, and one
 * more every 200 ms; while it has had more than that, connections to it stay with TCP. A connection
 * that was worth its move clears the place of its losses. A server that speaks first counts for
 * neither: it waits a while for HELLO, so a client that sends none would delay it.
 *
 * That no VIPL program listens at a place is remembered for a millisecond: asking for that takes a
 * good part of the time of a short connection.
 */
#ifndef VIPL_SOCKETS_PLACES_H
#define VIPL_SOCKETS_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "sockets/mark.h"

/* `now` is vipl_now_ns(). */

/* Whether no VIPL program listened at the place a moment ago. */
bool sock_place_was_plain(const struct sock_address *place, uint64_t now);
/* No VIPL program listens at the place. */
void sock_place_is_plain(const struct sock_address *place, uint64_t now);

/* Whether a connection to the place is likely to be too short to be moved. */
bool sock_place_is_for_short(const struct sock_address *place, uint64_t now);
/* A moved connection to the place has ended, after that number of messages. */
void sock_place_has_ended(const struct sock_address *place, uint64_t messages, uint64_t now);

void sock_places_forked(void);

#endif
