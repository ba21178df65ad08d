/* SPDX-License-Identifier: MIT */
/* Windows: requests that the driver's processor has copied to the card. */
#ifndef DEVICES_RNIC_CARD_WINDOW_H
#define DEVICES_RNIC_CARD_WINDOW_H

#include "devices/rnic/card/command.h"
#include "devices/rnic/card/state.h"

/* The command ASSIGN_WINDOW. */
uint16_t rnic_window_assign(struct rnic_card *card, struct rnic_command *command);
/* Takes the queue pair's window back, if it has one. */
void rnic_window_release(struct rnic_card *card, uint32_t qp);

/* Copies the next entry of the send queue from the window, and moves the ring's index on. Returns
 * false if the entry is not there whole: it is in the ring. */
bool rnic_window_fetch(struct rnic_card *card, uint32_t qp, struct rnic_work *work);
/* Copies the payload of an entry that was fetched from the window. Returns false if it is not there
 * any more: it is in the memory of the entry's segment. */
bool rnic_window_payload(struct rnic_card *card, uint32_t qp, const struct rnic_work *work, uint8_t *out);

#endif
