/* SPDX-License-Identifier: MIT */
/*
 * post_sq, post_rq: the data path. An entry is given to the card only if its ring has room, and a
 * completion queue room for what comes of it. Two segments lie in the entry itself, more in a list
 * of their own. A short message of one segment is copied to a window as well.
 */

#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "backends/rnic/verbs/window.h"
#include "os/os.h"
#include "rnic/entry.h"

/* --- lists --- */

void vipl_rnic_drop_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; queue->lists != NULL && i != end; i++) {
        struct rnic_block *list = &queue->lists[i & (queue->entries - 1)];
        vipl_rnic_block_put(&rnic->slabs, list);
        list->base = NULL;
    }
}

int vipl_rnic_prepare_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue)
{
    struct rnic_block block;
    if (queue->lists == NULL) {
        queue->lists = vipl_zalloc(queue->entries * sizeof(queue->lists[0]));
    }
    if (queue->lists == NULL) {
        return ENOMEM;
    }
    int error =
        vipl_rnic_block_get(&rnic->slabs, (size_t)RNIC_SEGMENT_LIMIT * RNIC_SEGMENT_BYTES, true, &block);
    if (error == 0) {
        vipl_rnic_block_put(&rnic->slabs, &block);
    }
    return error;
}

/* --- entries --- */

static void write_segments(uint8_t *to, const struct vipl_rnic_work *work, bool big)
{
    for (unsigned i = 0; i < work->segments; i++, to += RNIC_SEGMENT_BYTES) {
        struct vipl_rnic_segment segment = rnic_segment_of(work, i);
        rnic_put64(to + RNIC_SEG_ADDRESS, segment.address, big);
        rnic_put32(to + RNIC_SEG_LENGTH, segment.length, big);
        rnic_put32(to + RNIC_SEG_STAG, segment.stag, big);
    }
}

static uint32_t length_of(const struct vipl_rnic_work *work)
{
    uint32_t length = 0;
    for (unsigned i = 0; i < work->segments; i++) {
        length += rnic_segment_of(work, i).length;
    }
    return length;
}

static void write_work(uint8_t *entry, const struct vipl_rnic_work *work, const struct rnic_block *list,
                       bool big)
{
    entry[RNIC_WQE_OPCODE] = work->opcode;
    entry[RNIC_WQE_FLAGS] = (uint8_t)(work->flags | (list != NULL ? RNIC_WORK_FLAG_LIST : 0));
    rnic_put16(entry + RNIC_WQE_SEGMENTS, work->segments, big);
    rnic_put32(entry + RNIC_WQE_COOKIE, work->cookie, big);
    rnic_put32(entry + RNIC_WQE_IMMEDIATE, work->immediate, big);
    rnic_put32(entry + RNIC_WQE_LENGTH, length_of(work), big);
    rnic_put64(entry + RNIC_WQE_REMOTE_ADDRESS, work->remote_address, big);
    rnic_put32(entry + RNIC_WQE_REMOTE_STAG, work->remote_stag, big);
    rnic_put32(entry + RNIC_WQE_ZERO, 0, big);
    if (list == NULL) {
        write_segments(entry + RNIC_WQE_SEGMENT0, work, big);
    } else {
        write_segments(list->base, work, big);
        rnic_put64(entry + RNIC_WQE_SEGMENT0, list->iova, big);
    }
}

/* --- posting --- */

static int defer_post(struct vipl_rnic_queue *queue, uint32_t wants)
{
    vipl_store_release(&queue->wants, wants); /* pairs with vipl_rnic_grow_queue() */
    return EAGAIN;
}

/* Room in the ring, and a list if one is needed: 0, or what the queue wants. */
static uint32_t find_room(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue, unsigned segments,
                          struct rnic_block *list)
{
    /* pairs with vipl_rnic_retire(): the card is through with the entry whose place this one
     * gets */
    uint32_t posted = queue->producer - vipl_load_acquire(&queue->consumer);
    bool listed = segments > RNIC_INLINE_SEGMENTS;
    if (posted == queue->entries) {
        return VIPL_RNIC_WANTS_RING | (listed ? VIPL_RNIC_WANTS_LISTS : 0);
    }
    list->base = NULL;
    if (listed &&
        (queue->lists == NULL ||
         vipl_rnic_block_get(&rnic->slabs, (size_t)segments * RNIC_SEGMENT_BYTES, false, list) != 0)) {
        return VIPL_RNIC_WANTS_LISTS;
    }
    return 0;
}

static int post(struct vipl_rnic_qp *qp, struct vipl_rnic_queue *queue, uint32_t doorbell,
                const struct vipl_rnic_work *work)
{
    struct vipl_rnic *rnic = qp->rnic;
    struct rnic_block list;
    if (vipl_load_acquire(&queue->wants) != 0) { /* pairs with vipl_rnic_grow_queue() */
        return EAGAIN;
    }
    uint32_t wants = find_room(rnic, queue, work->segments, &list);
    if (wants != 0) {
        return defer_post(queue, wants);
    }
    if (!vipl_rnic_reserve_cq(qp->cq, 1)) {
        vipl_rnic_block_put(&rnic->slabs, &list);
        return defer_post(queue, VIPL_RNIC_WANTS_COMPLETIONS);
    }
    uint32_t place = queue->producer & (queue->entries - 1);
    write_work(queue->ring + place * (size_t)RNIC_WORK_BYTES, work, list.base == NULL ? NULL : &list,
               rnic->big);
    if (queue->lists != NULL) {
        queue->lists[place] = list;
    }
    if (doorbell == RNIC_QPDB_SQ && qp->window != NULL) {
        vipl_rnic_window_post(qp, work, queue->producer + 1);
    }
    /* pairs with vipl_rnic_retire(): the list is stored */
    vipl_store_release(&queue->producer, queue->producer + 1);
    vipl_rnic_ring(rnic, rnic_qp_doorbell(qp->number, doorbell), queue->producer, rnic_qp_hint(qp->number));
    return 0;
}

int vipl_rnic_post_sq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work)
{
    return post(qp, &qp->queues[VIPL_RNIC_SQ], RNIC_QPDB_SQ, work);
}

int vipl_rnic_post_rq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work)
{
    return post(qp, &qp->queues[VIPL_RNIC_RQ], RNIC_QPDB_RQ, work);
}

void vipl_rnic_hold_rq(struct vipl_rnic_qp *qp, bool held)
{
    vipl_rnic_ring(qp->rnic, rnic_qp_doorbell(qp->number, RNIC_QPDB_RQ_HELD), held ? 1 : 0,
                   rnic_qp_hint(qp->number));
}
