/* SPDX-License-Identifier: MIT */
/* Terminate: what is wrong with a peer's segment, in RDMAP's words, and what a peer's Terminate
 * means here. */
#ifndef DEVICES_RNIC_CARD_TERMINATE_H
#define DEVICES_RNIC_CARD_TERMINATE_H

#include "devices/rnic/card/mr.h"
#include "iwarp/rdmap.h"

/* The Terminate for a segment that was read. */
struct vipl_rdmap_terminate rnic_terminate_for(uint16_t reason, const struct vipl_ddp *ddp,
                                               uint32_t segment_bytes);
/* The reason for bytes that are no segment. */
uint16_t rnic_terminate_fault(enum vipl_ddp_fault fault, bool tagged);
/* The reason for an access that is refused: of an RDMA Write, or of an RDMA Read. */
uint16_t rnic_terminate_refusal(enum rnic_refusal refusal, bool read);

/* The reason for a DMA of the peer's RDMA that this side's bus refused: the access, or nothing that
 * the peer could know, where the program has ended. */
uint16_t rnic_terminate_bus(const struct rnic_card *card, unsigned fn);

/* A Terminate has come: what it is about completes, and the queue pair goes to ERROR. */
void rnic_terminate_received(struct rnic_card *card, uint32_t qp, const uint8_t *payload, uint32_t bytes);

#endif
