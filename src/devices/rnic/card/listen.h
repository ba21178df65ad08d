/* SPDX-License-Identifier: MIT */
/* The listen table: which functions take the requests for a discriminator. */
#ifndef DEVICES_RNIC_CARD_LISTEN_H
#define DEVICES_RNIC_CARD_LISTEN_H

#include "devices/rnic/card/command.h"

/* The functions that listen: the first row, or the one after `after`. NULL: there is none. */
const struct rnic_listen *rnic_listen_find(const struct rnic_card *card, const uint8_t *text, uint32_t length,
                                           const struct rnic_listen *after);
/* The function listens for nothing any more. */
void rnic_listen_forget(struct rnic_card *card, unsigned fn);

/* Commands. */
uint16_t rnic_listen_begin(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_listen_end(struct rnic_card *card, struct rnic_command *command);

#endif
