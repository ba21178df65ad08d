/* SPDX-License-Identifier: MIT */
/* Flows, as EFE has them, by the card's own terms: sending goes this way. */
#ifndef DEVICES_RNIC_CARD_FLOW_H
#define DEVICES_RNIC_CARD_FLOW_H

#include "devices/rnic/card/state.h"

/* EFE of this card. */
struct efe rnic_flow_efe(const struct rnic_card *card);

uint32_t rnic_flow_open(struct rnic_card *card, unsigned fn, const uint8_t mac[6], uint16_t peer_fn);
void rnic_flow_hold(struct rnic_card *card, uint32_t flow);
void rnic_flow_release(struct rnic_card *card, uint32_t flow);
uint8_t *rnic_flow_reserve(struct rnic_card *card, uint32_t flow);
void rnic_flow_cancel(struct rnic_card *card, uint32_t flow);
/* The reserved buffer is a frame of that function. */
void rnic_flow_commit(struct rnic_card *card, unsigned fn, uint32_t flow, const struct efe_send *send,
                      uint32_t bytes, uint64_t tag);
/* The reserved buffer becomes a Terminate with these bytes of content. */
void rnic_flow_terminate(struct rnic_card *card, unsigned fn, uint32_t flow, uint8_t *payload, uint16_t to_qp,
                         uint16_t from_qp, const uint8_t *content, uint32_t bytes);

#endif
