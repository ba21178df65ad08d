/* SPDX-License-Identifier: MIT */
/* Control messages, by which drivers connect. */
#ifndef DEVICES_RNIC_CARD_MESSAGE_H
#define DEVICES_RNIC_CARD_MESSAGE_H

#include "devices/rnic/card/command.h"

/* The command SEND_CONTROL. */
uint16_t rnic_message_send(struct rnic_card *card, struct rnic_command *command);
/* A control frame of a flow, in its order. False: it cannot be taken yet. */
bool rnic_message_take(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                       const uint8_t *payload);
/* The flow from that function to the adapter has ended: functions that listen may have requests
 * that came by it. */
void rnic_message_peer_lost(struct rnic_card *card, const uint8_t mac[6], uint16_t peer_fn);

#endif
