/* SPDX-License-Identifier: MIT */
/* The card's accesses to host memory. `object` is what the error log names if the bus refuses
 * one. */
#ifndef DEVICES_RNIC_CARD_DMA_H
#define DEVICES_RNIC_CARD_DMA_H

#include "devices/rnic/card/state.h"

/* False: refused, by the bus or because Bus Master Enable is clear; some of the bytes may have been
 * moved. No bytes: always true. */
bool rnic_dma_read(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, void *out,
                   uint32_t bytes);
bool rnic_dma_write(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, const void *in,
                    uint32_t bytes);
/* One aligned word in the function's byte order, stored whole and behind everything that was
 * written before. */
bool rnic_dma_publish(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, uint32_t value);

/* Something crosses the card's edge, now. The time is filled in: the clock of the engine that does
 * it, or the time of the transaction before it if that is later. */
void rnic_transact(struct rnic_card *card, struct rnic_transaction transaction);

#endif
