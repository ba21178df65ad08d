/* SPDX-License-Identifier: MIT */
/* Work entries: copied from their ring, checked, and the memory that they name. */
#ifndef DEVICES_RNIC_CARD_WORK_H
#define DEVICES_RNIC_CARD_WORK_H

#include "devices/rnic/card/mr.h"
#include "devices/rnic/card/state.h"

enum rnic_outcome {
    RNIC_WORK_GOOD,
    RNIC_WORK_BAD,    /* the entry is not valid */
    RNIC_WORK_DENIED, /* its memory may not be used so */
    RNIC_WORK_BUS     /* a DMA was refused */
};

/* Copies the next entry of the ring; RNIC_WORK_BUS, or good: then the ring's index moves on. */
enum rnic_outcome rnic_work_fetch(struct rnic_card *card, uint32_t qp, struct rnic_ring *ring,
                                  struct rnic_work *work);
/* Whether its segments are as many as are allowed and have the length that it says. */
enum rnic_outcome rnic_work_measure(struct rnic_card *card, uint32_t qp, const struct rnic_work *work);
/* Checks whether `bytes` bytes from the cursor on may be accessed in this way. The cursor stays. */
enum rnic_outcome rnic_work_check(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                  const struct rnic_cursor *at, uint32_t bytes, enum rnic_access access);
/* Copies them into the card, or out of it; the cursor moves on. What is not allowed (any more) is
 * not touched. */
enum rnic_outcome rnic_work_gather(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                   struct rnic_cursor *at, uint8_t *out, uint32_t bytes);
enum rnic_outcome rnic_work_scatter(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                    struct rnic_cursor *at, const uint8_t *in, uint32_t bytes);

#endif
