/* SPDX-License-Identifier: MIT */
/*
 * Buffers for a driver of DPDK: the slots of a capture, in the order in which they are posted. A
 * driver takes buffers from a pool of mbufs, whose order is the pool's own; this pool has a ring of
 * slots, and a mbuf that leaves the pool gets the oldest one. A driver that has a ring of buffers
 * fills them in the order in which it has taken them; of any other order the caller is told.
 *
 * One thread at a time uses it, in the calls of the driver as well.
 */
#ifndef VIPL_DM_DPDK_SLOTS_H
#define VIPL_DM_DPDK_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

/* Slots that are posted; a power of two. */
#define DM_DPDK_SLOTS 4096U

struct dm_dpdk_slots {
    struct rte_mempool *pool;
    uint32_t room;       /* of each slot, in bytes */
    uint64_t posted;     /* so far, as the following */
    uint64_t given;      /* to the driver */
    uint64_t taken;      /* from the driver, in their order */
    uint32_t free_count; /* of `free_mbufs` */
    struct rte_mbuf *free_mbufs[DM_DPDK_SLOTS];
    uint8_t *slots[DM_DPDK_SLOTS];
};

/* Makes the pool. Returns 0 or an errno value. */
int dm_dpdk_slots_begin(struct dm_dpdk_slots *slots, uint32_t room);
/* No driver has buffers any more. Does nothing if there is no pool. */
void dm_dpdk_slots_end(struct dm_dpdk_slots *slots);
/* A slot has headroom of RTE_PKTMBUF_HEADROOM bytes before it. False: there are as many as can
 * be. */
bool dm_dpdk_slots_post(struct dm_dpdk_slots *slots, uint8_t *at);
/* A buffer has come back from the driver, filled. False: it is not the oldest one. */
bool dm_dpdk_slots_take(struct dm_dpdk_slots *slots, struct rte_mbuf *mbuf);

#endif
