/* SPDX-License-Identifier: MIT */
/* What goes wrong in a function: its error log, and catastrophes. */
#ifndef DEVICES_RNIC_CARD_ERROR_H
#define DEVICES_RNIC_CARD_ERROR_H

#include "devices/rnic/card/state.h"

/* Makes the error known in the function's error log. */
void rnic_error_log(struct rnic_card *card, unsigned fn, uint32_t code, uint32_t object, uint64_t address);
/* The driver cannot be told in another way: the function does nothing more until it is reset. Its
 * last event is written, and its peers are told, at the end of this step of the card. */
void rnic_catastrophe(struct rnic_card *card, unsigned fn, uint32_t code, uint32_t object);
/* Whether the function does anything. */
static inline bool rnic_works(const struct rnic_card *card, unsigned fn)
{
    return rnic_fn(card, fn)->enabled && !rnic_fn(card, fn)->catastrophic;
}

#endif
