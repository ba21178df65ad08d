/* SPDX-License-Identifier: MIT */
/* Which function has a request that came for several. */
#ifndef DEVICES_RNIC_CARD_CLAIM_H
#define DEVICES_RNIC_CARD_CLAIM_H

#include "devices/rnic/card/command.h"

/* A request's name: a queue pair has one at a time, told apart by its serial number. */
struct rnic_claim_key {
    const uint8_t *peer_mac; /* 6 bytes */
    uint16_t peer_fn;
    uint32_t peer_qp;
    uint32_t serial;
};

/* Whether a function has it. */
bool rnic_claim_find(const struct rnic_card *card, const struct rnic_claim_key *key, unsigned *fn);
/* What the function has, others may have. */
void rnic_claim_forget(struct rnic_card *card, unsigned fn);

/* The command. */
uint16_t rnic_claim_take(struct rnic_card *card, struct rnic_command *command);

#endif
