/* SPDX-License-Identifier: MIT */
/* The table of page lists: runs of entries for tags whose memory is not linear. */
#ifndef DEVICES_RNIC_CARD_PBL_H
#define DEVICES_RNIC_CARD_PBL_H

#include "devices/rnic/card/state.h"

void rnic_pbl_init(struct rnic_card *card);
/* Returns the number of entries that a list of `pages` pages takes: the next power of two. */
uint32_t rnic_pbl_taken(uint32_t pages);
/* Takes a run of that many entries. Returns false if there is none. */
bool rnic_pbl_take(struct rnic_card *card, uint32_t pages, uint32_t *first);
void rnic_pbl_give(struct rnic_card *card, uint32_t first, uint32_t pages);
static inline uint64_t *rnic_pbl_entry(const struct rnic_card *card, uint32_t index)
{
    return (uint64_t *)rnic_at(card, rnic_state(card)->pbl_rows) + index;
}

#endif
