/* SPDX-License-Identifier: MIT */
/* What a host with loaded() is told, so that its log is enough to do the same again. */
#ifndef DEVICES_RNIC_CARD_RECORD_H
#define DEVICES_RNIC_CARD_RECORD_H

#include "devices/rnic/card/dma.h"

/* A call of the card, if the host wants to know. */
static inline void rnic_record(struct rnic_card *card, struct rnic_transaction call)
{
    if (card->host->loaded != NULL) {
        rnic_transact(card, call);
    }
}

/* The card has loaded these bytes of a BAR. A host that replays a log changes them. */
static inline void rnic_loaded(const struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                               void *data, uint32_t bytes)
{
    if (card->host->loaded != NULL) {
        card->host->loaded(card->context, fn, bar, offset, data, bytes);
    }
}

/* The card has stored these bytes into a BAR. */
static inline void rnic_stored(const struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                               const void *data, uint32_t bytes)
{
    if (card->host->stored != NULL) {
        card->host->stored(card->context, fn, bar, offset, data, bytes);
    }
}

#endif
