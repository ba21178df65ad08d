/* SPDX-License-Identifier: MIT */
/* The sending side of a queue pair: entries of its send queue become frames. */
#ifndef DEVICES_RNIC_CARD_REQUESTER_H
#define DEVICES_RNIC_CARD_REQUESTER_H

#include "devices/rnic/card/schedule.h"

/* Sends the next frame of the send queue. */
enum rnic_turn rnic_requester_turn(struct rnic_card *card, uint32_t qp);
/* Send a message acknowledgment, and the Terminate. */
enum rnic_turn rnic_requester_acknowledge(struct rnic_card *card, uint32_t qp);
enum rnic_turn rnic_requester_terminate(struct rnic_card *card, uint32_t qp);

/* Called when the frame that was committed with this tag has arrived. */
void rnic_requester_frame_acked(struct rnic_card *card, unsigned fn, uint64_t tag);
/* Handles a message acknowledgment for the queue pair. */
void rnic_requester_message_acked(struct rnic_card *card, uint32_t qp, const uint8_t *payload,
                                  uint32_t bytes);

#endif
