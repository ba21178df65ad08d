/* SPDX-License-Identifier: MIT */
/*
 * Packets that a driver of DPDK sends from where they are: mbufs without a buffer, to each of which
 * the memory of a packet is attached. A driver frees a mbuf when its place in the ring is needed
 * again, which may be much later than the packet has left; the status of the descriptor tells more,
 * where the driver says it for each.
 */
#ifndef VIPL_DM_DPDK_SENDING_H
#define VIPL_DM_DPDK_SENDING_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "dm/port.h"

/* Descriptors of a ring that is asked for, and packets that a driver may have, which it may free a
 * ring later: powers of two. */
#define DM_DPDK_RING 1024U
#define DM_DPDK_SENDING (4 * DM_DPDK_RING)

struct dm_dpdk_sending {
    struct rte_mempool *headers;
    uint16_t port;
    uint16_t ring;  /* descriptors that the driver has */
    bool is_exact;  /* the driver says the status of each descriptor */
    uint64_t taken; /* by the driver, so far, as the following */
    uint64_t freed; /* the first ones, by the driver */
    uint64_t done;  /* the first ones, which are sent */
    struct {
        struct rte_mbuf_ext_shared_info shared;
        bool is_free;
    } packets[DM_DPDK_SENDING];
};

/* Makes the headers of mbufs. Returns 0 or an errno value. */
int dm_dpdk_sending_begin(struct dm_dpdk_sending *sending, uint16_t port);
/* The driver has no mbufs any more. */
void dm_dpdk_sending_end(struct dm_dpdk_sending *sending);
/* Gives packets to the driver, at most DM_BATCH. Returns how many it has taken. */
unsigned dm_dpdk_sending_give(struct dm_dpdk_sending *sending, const struct dm_packet *packets,
                              unsigned count);
/* How many of the packets that the driver has taken are sent, the first ones. */
uint64_t dm_dpdk_sending_done(struct dm_dpdk_sending *sending);

#endif
