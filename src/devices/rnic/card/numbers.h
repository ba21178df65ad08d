/* SPDX-License-Identifier: MIT */
/* The rows of a table: which are free, whose the others are. */
#ifndef DEVICES_RNIC_CARD_NUMBERS_H
#define DEVICES_RNIC_CARD_NUMBERS_H

#include "devices/rnic/card/state.h"

/* Takes a row for the function. False: all are in use. */
bool rnic_numbers_take(const struct rnic_card *card, struct rnic_numbers *numbers, unsigned fn,
                       uint32_t *out);
/* Gives it back. */
void rnic_numbers_give(const struct rnic_card *card, struct rnic_numbers *numbers, uint32_t index);
/* Whether there is such a row and it is that function's. */
bool rnic_numbers_owns(const struct rnic_card *card, const struct rnic_numbers *numbers, unsigned fn,
                       uint32_t index);
/* The first row from `index` on that is the function's. False: none is. */
bool rnic_numbers_find(const struct rnic_card *card, const struct rnic_numbers *numbers, unsigned fn,
                       uint32_t *index);

#endif
