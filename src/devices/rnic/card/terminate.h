/* SPDX-License-Identifier: MIT */
/* Terminate: what is wrong with a peer's segment, in RDMAP's words, and what a peer's Terminate
 * means here. */
#ifndef DEVICES_RNIC_CARD_TERMINATE_H
#define DEVICES_RNIC_CARD_TERMINATE_H

#include "devices/rnic/card/mr.h"
#include "iwarp/rdmap.h"

/* Returns the Terminate for a segment that was decoded. */
struct vipl_rdmap_terminate rnic_terminate_for(uint16_t reason, const struct vipl_ddp *ddp,
                                               uint32_t segment_bytes);
/* Returns the reason for bytes that are no segment. */
uint16_t rnic_terminate_fault(enum vipl_ddp_fault fault, bool tagged);
/* Returns the reason for a refused access, of an RDMA Write or of an RDMA Read. */
uint16_t rnic_terminate_refusal(enum rnic_refusal refusal, bool read);

/* The reason when the bus of this side refuses a DMA for an RDMA operation from the peer: the
 * access, or, if the program has ended, a reason that tells the peer nothing. */
uint16_t rnic_terminate_bus(struct rnic_card *card, unsigned fn);

/* Handles a Terminate: completes the entry that it is about, and takes the queue pair to ERROR. */
void rnic_terminate_received(struct rnic_card *card, uint32_t qp, const uint8_t *payload, uint32_t bytes);

#endif
