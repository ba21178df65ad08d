/* SPDX-License-Identifier: MIT */
/* BAR2: memory that the driver stores into and the card looks at. */
#ifndef DEVICES_RNIC_CARD_DOORBELL_H
#define DEVICES_RNIC_CARD_DOORBELL_H

#include "devices/rnic/card/state.h"

/* A word of it, in the function's byte order, acquire and release; zero if nobody has attached. */
uint32_t rnic_doorbell_load(const struct rnic_card *card, unsigned fn, uint32_t offset);
void rnic_doorbell_store(const struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value);

/* For the log: the word was this and is that now. */
void rnic_doorbell_tell(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t before, uint32_t now);
/* A queue pair's words, a completion queue's; looked at for the log, too. */
void rnic_doorbell_look_qp(struct rnic_card *card, uint32_t qp, uint32_t *sq, uint32_t *rq);
void rnic_doorbell_look_cq(struct rnic_card *card, uint32_t cq, uint32_t *consumer, uint32_t *arm);
/* Whether the driver has receives that the ring has no room for yet. */
bool rnic_doorbell_holds(const struct rnic_card *card, uint32_t qp);
/* Makes one zero, as for a new object. */
void rnic_doorbell_clear_qp(struct rnic_card *card, unsigned fn, uint32_t qp);
void rnic_doorbell_clear_cq(struct rnic_card *card, unsigned fn, uint32_t cq);
/* Makes the function's own words and its hints zero. */
void rnic_doorbell_clear(struct rnic_card *card, unsigned fn);

/* The same memory, as the bus carries accesses to it. */
uint64_t rnic_doorbell_bus_read(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes);
void rnic_doorbell_bus_write(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                             uint64_t value);

#endif
