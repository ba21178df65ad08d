/* SPDX-License-Identifier: MIT */
/* EFE and the switch: their areas, their callbacks and their timers. */
#ifndef DEVICES_RNIC_CARD_WIRE_H
#define DEVICES_RNIC_CARD_WIRE_H

#include "devices/rnic/card/state.h"

size_t rnic_wire_efe_bytes(const struct rnic_card_config *config);
size_t rnic_wire_switch_bytes(const struct rnic_card_config *config);
/* Continues with the areas of EFE and the switch; `swaps`: a CPU of the other byte order has saved
 * them. False: they are none. */
bool rnic_wire_continue(struct rnic_card *card, bool swaps);
void rnic_wire_init(struct rnic_card *card);
/* Changes how bad the wire is. */
void rnic_wire_impair(struct rnic_card *card, const struct rnic_impair_config *impair);

/* Let a function send and receive, and end its flows, of which the peers are told. Not called from
 * EFE's callbacks. */
void rnic_wire_enable(struct rnic_card *card, unsigned fn);
void rnic_wire_reset(struct rnic_card *card, unsigned fn);

/* Returns when the switch can take a frame of a raw queue pair without losing it. A time that is
 * not later than the card's: now. UINT64_MAX: when it has handed out frames. */
uint64_t rnic_wire_room(const struct rnic_card *card, const uint8_t *frame, uint32_t bytes);
/* Sends a frame of a raw queue pair. Returns false if there is no room. */
bool rnic_wire_send(struct rnic_card *card, unsigned fn, const uint8_t *frame, uint32_t bytes);

/* Runs the switch and EFE: hands out frames, at most `most`, sends frames again, and finds lost
 * ones. Returns how many frames were handed out. */
uint32_t rnic_wire_advance(struct rnic_card *card, uint32_t most);
/* Handles a frame that has arrived through the wire. */
void rnic_wire_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes);
/* Tries frames again that could not be handled before. */
void rnic_wire_retry(struct rnic_card *card);
uint64_t rnic_wire_deadline(const struct rnic_card *card);
/* Returns the wire's rate in Mbit/s; 0: not limited. */
uint32_t rnic_wire_mbits(const struct rnic_card *card);
/* Adds what EFE has counted since the last call to the counters of the function. */
void rnic_wire_count(struct rnic_card *card);

#endif
