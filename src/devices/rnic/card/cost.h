/* SPDX-License-Identifier: MIT */
/* The time that the card's work takes: profiles of cards, and the cost of each step. */
#ifndef DEVICES_RNIC_CARD_COST_H
#define DEVICES_RNIC_CARD_COST_H

#include "devices/rnic/card/state.h"

/* Adds the cost of a DMA of `bytes` bytes. A read waits for its answer. */
void rnic_cost_dma(struct rnic_card *card, unsigned fn, bool reads, uint32_t bytes);
/* Adds the cost of making a frame of a send queue or of a read response. `first`: the first frame
 * of its message. */
void rnic_cost_request(struct rnic_card *card, unsigned fn, bool first);
/* Adds the cost of a frame that has arrived. */
void rnic_cost_arrival(struct rnic_card *card, unsigned fn);
/* Stores the properties of the profile's wire. */
void rnic_cost_wire(const struct rnic_card_config *config, struct rnic_impair_config *out);

#endif
