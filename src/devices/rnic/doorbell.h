/* SPDX-License-Identifier: MIT */
/* BAR2: memory that the driver stores into and the card looks at. */
#ifndef DEVICES_RNIC_DOORBELL_H
#define DEVICES_RNIC_DOORBELL_H

#include "devices/rnic/state.h"

/* Looks at everything whose hint is set, of all functions that work. */
void rnic_doorbell_scan(struct rnic_card *card);
/* Whether such a look would find something. */
bool rnic_doorbell_any(const struct rnic_card *card);
/* Tells the drivers that the card sleeps, or does not. */
void rnic_doorbell_asleep(struct rnic_card *card, bool asleep);

/* Looks at a queue pair's, or a completion queue's, doorbell now. */
void rnic_doorbell_look_qp(struct rnic_card *card, uint32_t qp);
void rnic_doorbell_look_cq(struct rnic_card *card, uint32_t cq, uint32_t *consumer, uint32_t *arm);
uint32_t rnic_doorbell_sq(const struct rnic_card *card, uint32_t qp);
uint32_t rnic_doorbell_rq(const struct rnic_card *card, uint32_t qp);
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
