/* SPDX-License-Identifier: MIT */
/* RDMA Reads: responses to the peer's reads, and responses of the peer to reads of this side. */
#ifndef DEVICES_RNIC_CARD_READS_H
#define DEVICES_RNIC_CARD_READS_H

#include "devices/rnic/card/schedule.h"
#include "iwarp/rdmap.h"

/* Sends the next frame of the oldest response. */
enum rnic_turn rnic_reads_turn(struct rnic_card *card, uint32_t qp);
/* Queues a Read Request that was checked. The caller has made sure that a slot is free. */
void rnic_reads_add(struct rnic_card *card, uint32_t qp, const struct vipl_rdmap_read *read);
/* Handles a frame of a response to a read of this side. Returns false if the frame is not the one
 * that is due. A frame for an earlier use of the slot is dropped. */
bool rnic_reads_answered(struct rnic_card *card, uint32_t qp, const struct vipl_ddp *ddp,
                         const uint8_t *payload, uint32_t bytes, uint32_t left);

#endif
