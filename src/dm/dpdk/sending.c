/* SPDX-License-Identifier: MIT */
#include "dm/dpdk/sending.h"

#include <errno.h>
#include <stdio.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

int dm_dpdk_sending_begin(struct dm_dpdk_sending *sending, uint16_t port)
{
    static unsigned pools; /* named so far: one thread at a time opens ports */
    char name[RTE_MEMPOOL_NAMESIZE];

    snprintf(name, sizeof(name), "vipl_sending_%u", pools++);
    sending->port = port;
    sending->headers = rte_pktmbuf_pool_create(name, DM_DPDK_SENDING, 0, 0, 0, SOCKET_ID_ANY);
    return sending->headers == NULL ? rte_errno : 0;
}

void dm_dpdk_sending_end(struct dm_dpdk_sending *sending)
{
    rte_mempool_free(sending->headers);
    sending->headers = NULL;
}

/* --- giving ----------------------------------------------------------------------------------- */

static void packet_freed(void *at, void *context)
{
    bool *is_free = context;

    (void)at;
    *is_free = true;
}

/* A mbuf for the packet; NULL: the driver has as many as there are. */
static struct rte_mbuf *mbuf_for(struct dm_dpdk_sending *sending, const struct dm_packet *packet,
                                 uint64_t place)
{
    struct rte_mbuf *mbuf =
        place - sending->freed < DM_DPDK_SENDING ? rte_pktmbuf_alloc(sending->headers) : NULL;
    struct rte_mbuf_ext_shared_info *shared = &sending->packets[place % DM_DPDK_SENDING].shared;
    bool *is_free = &sending->packets[place % DM_DPDK_SENDING].is_free;

    if (mbuf == NULL) {
        return NULL;
    }
    *is_free = false;
    shared->free_cb = packet_freed;
    shared->fcb_opaque = is_free;
    rte_mbuf_ext_refcnt_set(shared, 1);
    /* The driver reads the memory, although its address has no const here. */
    rte_pktmbuf_attach_extbuf(mbuf, (void *)(uintptr_t)packet->at, (uintptr_t)packet->at,
                              (uint16_t)packet->bytes, shared);
    mbuf->data_len = (uint16_t)packet->bytes;
    mbuf->pkt_len = packet->bytes;
    return mbuf;
}

static void count_freed(struct dm_dpdk_sending *sending)
{
    while (sending->freed < sending->taken && sending->packets[sending->freed % DM_DPDK_SENDING].is_free) {
        sending->freed++;
    }
    sending->done = sending->done > sending->freed ? sending->done : sending->freed;
}

unsigned dm_dpdk_sending_give(struct dm_dpdk_sending *sending, const struct dm_packet *packets,
                              unsigned count)
{
    struct rte_mbuf *mbufs[DM_BATCH];
    unsigned made = 0;
    unsigned given;

    count_freed(sending);
    while (made < count && made < DM_BATCH &&
           (mbufs[made] = mbuf_for(sending, &packets[made], sending->taken + made)) != NULL) {
        made++;
    }
    given = rte_eth_tx_burst(sending->port, 0, mbufs, (uint16_t)made);
    for (unsigned i = given; i < made; i++) {
        rte_pktmbuf_free(mbufs[i]);
    }
    sending->taken += given;
    return given;
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* Whether the descriptor of the oldest packet that is not done says that it is. Descriptors are
 * counted from the one that the driver uses next, so the newest packet has the last one. */
static bool is_next_done(const struct dm_dpdk_sending *sending)
{
    uint64_t pending = sending->taken - sending->done;

    return pending > 0 && pending < sending->ring &&
           rte_eth_tx_descriptor_status(sending->port, 0, (uint16_t)(sending->ring - pending)) ==
               RTE_ETH_TX_DESC_DONE;
}

uint64_t dm_dpdk_sending_done(struct dm_dpdk_sending *sending)
{
    count_freed(sending);
    if (sending->done < sending->taken) {
        (void)rte_eth_tx_done_cleanup(sending->port, 0, 0); /* not every driver has it */
        count_freed(sending);
    }
    while (sending->is_exact && is_next_done(sending)) {
        sending->done++;
    }
    return sending->done;
}
