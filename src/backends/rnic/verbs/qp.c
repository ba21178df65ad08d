/* SPDX-License-Identifier: MIT */
/*
 * create_qp, modify_qp, and the rings of a queue pair. A queue has no ring until something is
 * posted to it. A post that finds no room says so in `wants`; from then on nothing is posted, so
 * that the entries can be copied, until vipl_rnic_grow_queue() is done.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/cq.h"
#include "backends/rnic/verbs/window.h"
#include "os/os.h"
#include "rnic/entry.h"

enum {
    FIRST_ENTRIES = 16,
    DRAINED_ROOM = 2, /* completions of a queue pair that no entry stands for */
    CHANGE_ALL = 7    /* rights, domain and level */
};

/* --- commands --- */

static void put_qp_attributes(struct rnic_command *command, const struct vipl_rnic *rnic,
                              const struct vipl_rnic_qp_attributes *attributes)
{
    rnic_put16(command->entry + RNIC_CMD_QP_REALM, attributes->pd.realm, rnic->big);
    rnic_put32(command->entry + RNIC_CMD_QP_DOMAIN, attributes->pd.domain, rnic->big);
    command->entry[RNIC_CMD_QP_LEVEL] = attributes->level;
    command->entry[RNIC_CMD_QP_RIGHTS] = attributes->rights;
}

static int create_qp_on_card(struct vipl_rnic_qp *qp, const struct vipl_rnic_qp_attributes *attributes)
{
    struct rnic_command command;
    struct rnic_answer answer;
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_CREATE_QP, 0);
    put_qp_attributes(&command, qp->rnic, attributes);
    rnic_put32(command.entry + RNIC_CMD_QP_SEND_CQ, qp->cq->number, qp->rnic->big);
    rnic_put32(command.entry + RNIC_CMD_QP_RECV_CQ, qp->cq->number, qp->rnic->big);
    int error = vipl_rnic_execute(qp->rnic, &command, &answer);
    if (error == 0 && answer.info >= qp->rnic->caps.qps) {
        vipl_rnic_fail(qp->rnic, "the card numbers a queue pair wrongly");
        error = ENODEV;
    }
    qp->number = error == 0 ? answer.info : 0;
    return error;
}

int vipl_rnic_create_qp(struct vipl_rnic *rnic, struct vipl_rnic_cq *cq,
                        const struct vipl_rnic_qp_attributes *attributes, struct vipl_rnic_qp *out)
{
    struct vipl_rnic_qp qp = {.rnic = rnic, .cq = cq};
    if (!vipl_rnic_reserve_cq(cq, DRAINED_ROOM)) {
        return ENOBUFS;
    }
    int error = create_qp_on_card(&qp, attributes);
    if (error != 0) {
        vipl_rnic_release_cq(cq, DRAINED_ROOM);
        return error;
    }
    *out = qp;
    return 0;
}

static void drop_ring(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue)
{
    struct rnic_block block = {
        .base = queue->ring, .iova = queue->iova, .bytes = (size_t)queue->entries * RNIC_WORK_BYTES};
    vipl_rnic_block_put(&rnic->slabs, &block);
    vipl_free(queue->lists);
    *queue = (struct vipl_rnic_queue){.ring = NULL};
}

/* The entries that are not complete never will be: their lists and the room for their completions
 * come back. */
static void drop_unfinished(struct vipl_rnic_qp *qp, struct vipl_rnic_queue *queue)
{
    vipl_rnic_drop_lists(qp->rnic, queue, queue->consumer, queue->producer);
    vipl_rnic_release_cq(qp->cq, queue->producer - queue->consumer);
    vipl_store_release(&queue->consumer, queue->producer);
}

int vipl_rnic_destroy_qp(struct vipl_rnic_qp *qp)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_DESTROY_QP, qp->number);
    int error = vipl_rnic_execute(qp->rnic, &command, NULL);
    if (error != 0 && error != ENODEV) {
        return error;
    }
    for (unsigned i = 0; i < 2; i++) {
        drop_unfinished(qp, &qp->queues[i]);
        drop_ring(qp->rnic, &qp->queues[i]);
    }
    vipl_rnic_release_cq(qp->cq, DRAINED_ROOM);
    return error;
}

int vipl_rnic_set_qp(struct vipl_rnic_qp *qp, const struct vipl_rnic_qp_attributes *attributes)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_MODIFY_QP, qp->number);
    put_qp_attributes(&command, qp->rnic, attributes);
    command.entry[RNIC_CMD_QP_STATE] = RNIC_QP_STATE_KEEP;
    command.entry[RNIC_CMD_QP_CHANGE] = CHANGE_ALL;
    return vipl_rnic_execute(qp->rnic, &command, NULL);
}

int vipl_rnic_modify_qp(struct vipl_rnic_qp *qp, unsigned state,
                        const struct vipl_rnic_qp_connection *connection)
{
    struct rnic_command command;
    bool big = qp->rnic->big;
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_MODIFY_QP, qp->number);
    command.entry[RNIC_CMD_QP_STATE] = (uint8_t)state;
    if (connection != NULL) {
        command.entry[RNIC_CMD_QP_IRD] = connection->ird;
        command.entry[RNIC_CMD_QP_ORD] = connection->ord;
        memcpy(command.entry + RNIC_CMD_QP_PEER_MAC, connection->peer.mac, 6);
        rnic_put16(command.entry + RNIC_CMD_QP_PEER_FUNCTION, connection->peer.function, big);
        rnic_put32(command.entry + RNIC_CMD_QP_PEER_QP, connection->peer.qp, big);
        rnic_put32(command.entry + RNIC_CMD_QP_MAX_MESSAGE, connection->max_message, big);
    }
    return vipl_rnic_execute(qp->rnic, &command, NULL);
}

int vipl_rnic_query_qp(struct vipl_rnic_qp *qp, unsigned *state, unsigned *error)
{
    struct rnic_command command;
    struct rnic_answer answer;
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_QUERY_QP, qp->number);
    int failed = vipl_rnic_execute(qp->rnic, &command, &answer);
    if (failed == 0) {
        *state = answer.info;
        *error = answer.length;
    }
    return failed;
}

/* --- rings --- */

static uint8_t *entry_of(uint8_t *ring, uint32_t entries, uint32_t index)
{
    return ring + (index & (entries - 1)) * (size_t)RNIC_WORK_BYTES;
}

/* What has been posted and is not complete, at its running indices. */
static void copy_entries(const struct vipl_rnic_queue *from, struct vipl_rnic_queue *to)
{
    for (uint32_t i = from->consumer; i != from->producer; i++) {
        memcpy(entry_of(to->ring, to->entries, i), entry_of(from->ring, from->entries, i), RNIC_WORK_BYTES);
        if (from->lists != NULL) {
            to->lists[i & (to->entries - 1)] = from->lists[i & (from->entries - 1)];
        }
    }
}

static int set_ring(struct vipl_rnic_qp *qp, unsigned which, const struct vipl_rnic_queue *queue)
{
    struct rnic_command command;
    unsigned log2 = 0;
    while (1u << log2 < queue->entries) {
        log2++;
    }
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_SET_RING, qp->number);
    rnic_put16(command.entry + RNIC_CMD_OBJECT_KIND, (uint16_t)which, qp->rnic->big);
    rnic_put16(command.entry + RNIC_CMD_RING_LOG2, (uint16_t)log2, qp->rnic->big);
    rnic_put64(command.entry + RNIC_CMD_RING_BASE, queue->iova, qp->rnic->big);
    return vipl_rnic_execute(qp->rnic, &command, NULL);
}

/* Allocates a ring of the given size for the entries of the queue that are not complete. The card
 * does not know the ring yet. */
static int make_ring(struct vipl_rnic_qp *qp, const struct vipl_rnic_queue *queue, uint32_t entries,
                     struct vipl_rnic_queue *out)
{
    struct rnic_block block;
    *out = *queue;
    out->lists = NULL;
    if (queue->lists != NULL && (out->lists = vipl_zalloc(entries * sizeof(out->lists[0]))) == NULL) {
        return ENOMEM;
    }
    int error = vipl_rnic_block_get(&qp->rnic->slabs, (size_t)entries * RNIC_WORK_BYTES, true, &block);
    if (error != 0) {
        vipl_free(out->lists);
        return error;
    }
    out->ring = block.base;
    out->iova = block.iova;
    out->entries = entries;
    return 0;
}

static int enlarge(struct vipl_rnic_qp *qp, unsigned which)
{
    struct vipl_rnic_queue *queue = &qp->queues[which];
    struct vipl_rnic_queue larger;
    struct vipl_rnic_queue old = *queue;
    int error = make_ring(qp, queue, queue->entries == 0 ? FIRST_ENTRIES : queue->entries * 2, &larger);
    if (error != 0) {
        return error;
    }
    copy_entries(queue, &larger);
    error = set_ring(qp, which, &larger);
    if (error != 0) {
        old = larger;
    } else {
        queue->ring = larger.ring;
        queue->iova = larger.iova;
        queue->entries = larger.entries;
        queue->lists = larger.lists;
    }
    drop_ring(qp->rnic, &old);
    return error;
}

/* The first ring of a queue, or a larger one. */
static int make_ring_room(struct vipl_rnic_qp *qp, unsigned which)
{
    bool is_first = qp->queues[which].entries == 0;
    int error = enlarge(qp, which);
    if (error == 0 && is_first && which == VIPL_RNIC_SQ) {
        vipl_rnic_window_get(qp);
    }
    return error;
}

static int make_room(struct vipl_rnic_qp *qp, unsigned which, uint32_t wants)
{
    struct vipl_rnic_queue *queue = &qp->queues[which];
    int error = 0;
    if (queue->producer - queue->consumer == queue->entries) {
        error = queue->entries >> qp->rnic->caps.work_log2 != 0 ? EAGAIN : make_ring_room(qp, which);
    }
    if (error == 0 && (wants & VIPL_RNIC_WANTS_LISTS) != 0) {
        error = vipl_rnic_prepare_lists(qp->rnic, queue);
    }
    if (error == 0 && (wants & VIPL_RNIC_WANTS_COMPLETIONS) != 0) {
        error = vipl_rnic_cq_has_room(qp->cq) ? 0 : vipl_rnic_grow_cq(qp->cq);
    }
    return error;
}

int vipl_rnic_grow_queue(struct vipl_rnic_qp *qp, unsigned which)
{
    struct vipl_rnic_queue *queue = &qp->queues[which];
    uint32_t wants = vipl_load_acquire(&queue->wants); /* pairs with the post that found no room */
    int error = wants == 0 ? 0 : make_room(qp, which, wants);
    if (error == 0) {
        vipl_store_release(&queue->wants, 0); /* pairs with the next post */
    }
    return error;
}

/* --- the end of what was posted --- */

bool vipl_rnic_retire(struct vipl_rnic_qp *qp, const struct vipl_rnic_completion *completion)
{
    struct vipl_rnic_queue *queue =
        &qp->queues[completion->opcode == RNIC_WORK_RECEIVE ? VIPL_RNIC_RQ : VIPL_RNIC_SQ];
    uint32_t consumer = queue->consumer;
    /* pairs with post(): the lists up to it are stored, whenever the card says that it is through
     * with them */
    uint32_t producer = vipl_load_acquire(&queue->producer);
    if (completion->index - consumer - 1 >= producer - consumer) {
        vipl_rnic_fail(qp->rnic, "the card completes what was not posted");
        return false;
    }
    vipl_rnic_drop_lists(qp->rnic, queue, consumer, completion->index);
    vipl_store_release(&queue->consumer, completion->index); /* pairs with find_room() */
    vipl_rnic_release_cq(qp->cq, completion->index - consumer);
    return true;
}

int vipl_rnic_renew_qp(struct vipl_rnic_qp *qp)
{
    int error = vipl_rnic_modify_qp(qp, RNIC_QP_STATE_IDLE, NULL);
    for (unsigned i = 0; error == 0 && i < 2; i++) {
        drop_unfinished(qp, &qp->queues[i]);
    }
    return error;
}
