/* SPDX-License-Identifier: MIT */
/* Registered memory: steering tags, what they allow, and where their bytes are on the bus. */
#ifndef DEVICES_RNIC_CARD_MR_H
#define DEVICES_RNIC_CARD_MR_H

#include "devices/rnic/card/command.h"
#include "devices/rnic/card/state.h"

/* What an access is to do. */
enum rnic_access {
    RNIC_ACCESS_LOCAL_READ,
    RNIC_ACCESS_LOCAL_WRITE,
    RNIC_ACCESS_REMOTE_WRITE,
    RNIC_ACCESS_REMOTE_READ
};

/* Why it may not: each has a reason of its own in a Terminate. */
enum rnic_refusal {
    RNIC_ALLOWED,
    RNIC_REFUSED_TAG,    /* no such tag, or another function's */
    RNIC_REFUSED_BOUNDS, /* outside of the memory */
    RNIC_REFUSED_WRAP,   /* beyond the end of all addresses */
    RNIC_REFUSED_DOMAIN, /* another realm's or domain's */
    RNIC_REFUSED_RIGHT
};

/* Whether the queue pair may. No bytes: always. */
enum rnic_refusal rnic_mr_check(const struct rnic_card *card, uint32_t qp, enum rnic_access access,
                                const struct rnic_segment *range);
/* Copies between the card and a range that was checked. False: the bus refused. */
bool rnic_mr_read(struct rnic_card *card, uint32_t qp, const struct rnic_segment *range, uint8_t *out);
bool rnic_mr_write(struct rnic_card *card, uint32_t qp, const struct rnic_segment *range, const uint8_t *in);

void rnic_mr_free(struct rnic_card *card, unsigned fn, uint32_t index);

/* Commands. */
uint16_t rnic_mr_register(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_mr_change(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_mr_invalidate(struct rnic_card *card, struct rnic_command *command);

#endif
