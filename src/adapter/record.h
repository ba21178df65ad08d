/* SPDX-License-Identifier: MIT */
/*
 * A log from which the card can be replayed. The card's loads from memory that a driver shares are
 * part of it: the recorder keeps a copy of each function's BARs as a replay has them, compares each
 * load with it, and writes down what differs.
 */
#ifndef ADAPTER_RECORD_H
#define ADAPTER_RECORD_H

#include "adapter/log.h"
#include "devices/rnic/card/card.h"

/* A recorder, which the card's thread uses. */
struct rnic_recorder {
    struct rnic_log *log;
    size_t bar4_bytes;
    uint64_t time;                          /* of the last record */
    uint64_t loads;                         /* since the last record */
    uint8_t *bar2[RNIC_CARD_MAX_FUNCTIONS]; /* as a replay has them; NULL: never attached */
    uint8_t *bar4[RNIC_CARD_MAX_FUNCTIONS];
};

/* Begins before the card's power-up. The log stays open as long as the recorder. */
void rnic_record_init(struct rnic_recorder *recorder, struct rnic_log *log,
                      const struct rnic_card_config *config);
void rnic_record_fini(struct rnic_recorder *recorder);

/* The card's callbacks of the same names: every transaction, load and store. */
void rnic_record_transaction(struct rnic_recorder *recorder, const struct rnic_transaction *transaction);
void rnic_record_loaded(struct rnic_recorder *recorder, unsigned fn, unsigned bar, uint64_t offset,
                        const void *data, uint32_t bytes);
void rnic_record_stored(struct rnic_recorder *recorder, unsigned fn, unsigned bar, uint64_t offset,
                        const void *data, uint32_t bytes);

#endif
