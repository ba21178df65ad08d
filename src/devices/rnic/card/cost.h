/* SPDX-License-Identifier: MIT */
/* How long things take: profiles of cards, what each step costs, and whether it makes time pass. */
#ifndef DEVICES_RNIC_CARD_COST_H
#define DEVICES_RNIC_CARD_COST_H

#include "devices/rnic/card/state.h"

/* A DMA of so many bytes; reads wait for their answer. */
void rnic_cost_dma(struct rnic_card *card, unsigned fn, bool reads, uint32_t bytes);
/* A frame of a send queue or of an answer is made; `first`: of its message. */
void rnic_cost_request(struct rnic_card *card, unsigned fn, bool first);
/* A frame was taken. */
void rnic_cost_arrival(struct rnic_card *card, unsigned fn);
/* The profile's wire. */
void rnic_cost_wire(const struct rnic_card_config *config, struct rnic_impair_config *out);

#endif
