/* SPDX-License-Identifier: MIT */
/* RDMA Reads: the peer's, which are answered here, and the answers to ours. */
#ifndef DEVICES_RNIC_CARD_READS_H
#define DEVICES_RNIC_CARD_READS_H

#include "devices/rnic/card/schedule.h"
#include "iwarp/rdmap.h"

/* The next frame of the oldest answer. */
enum rnic_turn rnic_reads_turn(struct rnic_card *card, uint32_t qp);
/* A Read Request that was checked waits for its answer; there is a slot. */
void rnic_reads_add(struct rnic_card *card, uint32_t qp, const struct vipl_rdmap_read *read);
/* A frame of an answer to one of ours. False: it is not what is due now. What is of an earlier life
 * of the slot is dropped. */
bool rnic_reads_answered(struct rnic_card *card, uint32_t qp, const struct vipl_ddp *ddp,
                         const uint8_t *payload, uint32_t bytes, uint32_t left);

#endif
