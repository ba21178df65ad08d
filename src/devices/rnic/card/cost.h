/* SPDX-License-Identifier: MIT */
/* The time that the card's work takes: profiles of cards, engines and ports, and the cost of each
 * step. */
#ifndef DEVICES_RNIC_CARD_COST_H
#define DEVICES_RNIC_CARD_COST_H

#include "devices/rnic/card/state.h"

void rnic_cost_init(struct rnic_card *card);

/* Returns true if the engine may begin an operation now. Without simulated time it always may. */
bool rnic_cost_is_free(const struct rnic_card *card, enum rnic_engine_kind engine);
/* An operation of the engine begins, now or when the engine is free, and ends. There is one at a
 * time. What costs time outside of an operation is only added up. */
void rnic_cost_begin(struct rnic_card *card, enum rnic_engine_kind engine);
void rnic_cost_end(struct rnic_card *card);
/* What follows in this operation is the work of `engine`, which begins with it when the operation
 * has come so far and the engine is free. Returns the engine whose operation this is, and to which
 * rnic_cost_take_back() gives the operation back, as it was. */
enum rnic_engine_kind rnic_cost_hand_over(struct rnic_card *card, enum rnic_engine_kind engine);
void rnic_cost_take_back(struct rnic_card *card, enum rnic_engine_kind engine);
/* Returns the clock of the engine whose operation this is; outside of an operation the card's
 * time. */
uint64_t rnic_cost_now(const struct rnic_card *card);
/* Returns when the next busy engine is free; UINT64_MAX: none is busy. */
uint64_t rnic_cost_deadline(const struct rnic_card *card);

/* Adds the cost of a DMA of `bytes` bytes. A read waits for its answer. */
void rnic_cost_dma(struct rnic_card *card, unsigned fn, bool reads, uint32_t bytes);
/* Adds the cost of an access to device memory. */
void rnic_cost_devmem(struct rnic_card *card, unsigned fn, enum rnic_port_kind port, bool reads,
                      uint32_t bytes);
/* Adds the cost of making a frame of a send queue or of a read response, or of taking a frame that
 * has arrived. `first`: the first frame of its message. */
void rnic_cost_frame(struct rnic_card *card, unsigned fn, enum rnic_engine_kind engine, bool first);
/* Adds the cost of making the first frame of a message that the processor has stored into the card:
 * whose entry was found in a window, or which was a store into the AOTF space. */
void rnic_cost_stored(struct rnic_card *card, unsigned fn);
/* Stores the properties of the profile's wire. */
void rnic_cost_wire(const struct rnic_card_config *config, struct rnic_impair_config *out);

#endif
