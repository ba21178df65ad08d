/* SPDX-License-Identifier: MIT */
/* The receiving side of a queue pair: DDP segments become bytes in memory and completed
 * receives. */
#ifndef DEVICES_RNIC_CARD_RESPONDER_H
#define DEVICES_RNIC_CARD_RESPONDER_H

#include "devices/rnic/card/state.h"

/* Handles a data frame of a flow, in order. Returns false if the frame cannot be handled yet. */
bool rnic_responder_take(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                         const uint8_t *payload);
/* Finds the queue pair that a frame of this flow is for. Returns false if there is none. */
bool rnic_responder_find(const struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                         uint32_t *qp);

#endif
