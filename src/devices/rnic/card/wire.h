/* SPDX-License-Identifier: MIT */
/* EFE and the switch: their place in the area, what they call, their time. */
#ifndef DEVICES_RNIC_CARD_WIRE_H
#define DEVICES_RNIC_CARD_WIRE_H

#include "devices/rnic/card/state.h"

size_t rnic_wire_efe_bytes(const struct rnic_card_config *config);
size_t rnic_wire_switch_bytes(const struct rnic_card_config *config);
void rnic_wire_init(struct rnic_card *card);
/* Another wire from now on. */
void rnic_wire_impair(struct rnic_card *card, const struct rnic_impair_config *impair);

/* The function sends and receives; its flows end, and their peers are told. Not to be called by
 * EFE's callbacks. */
void rnic_wire_enable(struct rnic_card *card, unsigned fn);
void rnic_wire_reset(struct rnic_card *card, unsigned fn);

/* Frames: handed out by the switch, sent again, found lost. At most so many of the first kind;
 * returns how many those were. */
uint32_t rnic_wire_advance(struct rnic_card *card, uint32_t most);
/* A frame came by the wire. */
void rnic_wire_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes);
/* Frames that could not be taken before are tried again. */
void rnic_wire_retry(struct rnic_card *card);
uint64_t rnic_wire_deadline(const struct rnic_card *card);
/* The wire's rate in millions of bits in a second; 0: not limited. */
uint32_t rnic_wire_mbits(const struct rnic_card *card);
/* Puts what EFE has counted since the last time into the counters of the function that it was
 * for. */
void rnic_wire_count(struct rnic_card *card);

#endif
