/* SPDX-License-Identifier: MIT */
#include "dm/dpdk/slots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_mempool.h>

/* A mbuf of the pool, whose buffer is not its own, and what is behind it. */
struct slot_mbuf {
    struct rte_mbuf mbuf;
    struct rte_mbuf_ext_shared_info shared;
    uint64_t place; /* of its slot, in the order in which they are posted */
};

static void not_freed(void *at, void *context)
{
    (void)at;
    (void)context; /* a slot is the caller's */
}

/* --- the pool's operations -------------------------------------------------------------------- */

static int slots_alloc(struct rte_mempool *pool)
{
    pool->pool_data = pool->pool_config;
    return 0;
}

static void slots_free(struct rte_mempool *pool)
{
    (void)pool;
}

static int slots_enqueue(struct rte_mempool *pool, void *const *objects, unsigned count)
{
    struct dm_dpdk_slots *slots = pool->pool_data;

    for (unsigned i = 0; i < count; i++) {
        slots->free_mbufs[slots->free_count++] = objects[i];
    }
    return 0;
}

static void give_slot(struct dm_dpdk_slots *slots, struct rte_mbuf *mbuf)
{
    uint8_t *buffer = slots->slots[slots->given % DM_DPDK_SLOTS] - RTE_PKTMBUF_HEADROOM;

    ((struct slot_mbuf *)mbuf)->place = slots->given++;
    mbuf->buf_addr = buffer;
    mbuf->buf_iova = (uintptr_t)buffer;
}

static int slots_dequeue(struct rte_mempool *pool, void **objects, unsigned count)
{
    struct dm_dpdk_slots *slots = pool->pool_data;

    if (count > slots->free_count || count > slots->posted - slots->given) {
        return -ENOBUFS;
    }
    for (unsigned i = 0; i < count; i++) {
        objects[i] = slots->free_mbufs[--slots->free_count];
        give_slot(slots, objects[i]);
    }
    return 0;
}

static unsigned slots_count(const struct rte_mempool *pool)
{
    const struct dm_dpdk_slots *slots = pool->pool_data;
    uint64_t left = slots->posted - slots->given;

    return left < slots->free_count ? (unsigned)left : slots->free_count;
}

static const struct rte_mempool_ops slots_ops = {
    .name = "vipl_slots",
    .alloc = slots_alloc,
    .free = slots_free,
    .enqueue = slots_enqueue,
    .dequeue = slots_dequeue,
    .get_count = slots_count,
};

/* Once in a process. Returns 0 or an errno value. */
static int register_ops(void)
{
    static bool is_registered;
    int index = is_registered ? 0 : rte_mempool_register_ops(&slots_ops);

    is_registered = is_registered || index >= 0;
    return index < 0 ? -index : 0;
}

/* --- slots ------------------------------------------------------------------------------------ */

static void make_mbuf(struct rte_mempool *pool, void *context, void *object, unsigned number)
{
    const struct dm_dpdk_slots *slots = context;
    struct slot_mbuf *made = object;
    struct rte_mbuf *mbuf = &made->mbuf;

    (void)number;
    memset(made, 0, sizeof(*made));
    mbuf->pool = pool;
    mbuf->nb_segs = 1;
    mbuf->port = RTE_MBUF_PORT_INVALID;
    mbuf->ol_flags = RTE_MBUF_F_EXTERNAL;
    mbuf->buf_len = (uint16_t)(RTE_PKTMBUF_HEADROOM + slots->room);
    mbuf->data_off = RTE_PKTMBUF_HEADROOM;
    mbuf->shinfo = &made->shared;
    made->shared.free_cb = not_freed;
    rte_mbuf_ext_refcnt_set(&made->shared, 1);
    rte_mbuf_refcnt_set(mbuf, 1);
}

int dm_dpdk_slots_begin(struct dm_dpdk_slots *slots, uint32_t room)
{
    static unsigned pools; /* named so far: one thread at a time opens ports */
    struct rte_pktmbuf_pool_private params = {.mbuf_data_room_size = (uint16_t)(RTE_PKTMBUF_HEADROOM + room),
                                              .flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF};
    char name[RTE_MEMPOOL_NAMESIZE];
    int error = register_ops();

    if (error != 0) {
        return error;
    }
    slots->room = room;
    snprintf(name, sizeof(name), "vipl_slots_%u", pools++);
    slots->pool = rte_mempool_create_empty(name, DM_DPDK_SLOTS, sizeof(struct slot_mbuf), 0, sizeof(params),
                                           SOCKET_ID_ANY, 0);
    if (slots->pool == NULL) {
        return rte_errno;
    }
    error = -rte_mempool_set_ops_byname(slots->pool, slots_ops.name, slots);
    if (error == 0) {
        rte_pktmbuf_pool_init(slots->pool, &params);
        error = rte_mempool_populate_default(slots->pool) < 0 ? rte_errno : 0;
    }
    if (error != 0) {
        dm_dpdk_slots_end(slots);
        return error;
    }
    rte_mempool_obj_iter(slots->pool, make_mbuf, slots);
    return 0;
}

void dm_dpdk_slots_end(struct dm_dpdk_slots *slots)
{
    rte_mempool_free(slots->pool);
    slots->pool = NULL;
}

bool dm_dpdk_slots_post(struct dm_dpdk_slots *slots, uint8_t *at)
{
    if (slots->posted - slots->taken == DM_DPDK_SLOTS) {
        return false;
    }
    slots->slots[slots->posted++ % DM_DPDK_SLOTS] = at;
    return true;
}

bool dm_dpdk_slots_take(struct dm_dpdk_slots *slots, struct rte_mbuf *mbuf)
{
    bool is_next = mbuf->pool == slots->pool && ((struct slot_mbuf *)mbuf)->place == slots->taken;

    slots->taken += is_next ? 1 : 0;
    return is_next;
}
