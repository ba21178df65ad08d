/* SPDX-License-Identifier: MIT */
/*
 * create_cq, poll_cq, arm_cq. The card never looks whether a completion queue has room: the caller
 * that gives it work reserves a place first, which comes back when the completion has been taken
 * and the card has been told so.
 */
#include "backends/rnic/verbs/cq.h"

#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "os/os.h"
#include "rnic/entry.h"

static size_t ring_bytes(unsigned log2)
{
    return (size_t)RNIC_COMPLETION_BYTES << log2;
}

static uint8_t *completion_at(const struct rnic_block *ring, unsigned log2, uint32_t index)
{
    return ring->base + (index & ((1u << log2) - 1)) * (size_t)RNIC_COMPLETION_BYTES;
}

/* No OWNER word of a new ring is taken for an entry that is there. */
static void fill_owners(const struct vipl_rnic *rnic, const struct rnic_block *ring, unsigned log2,
                        uint32_t next)
{
    for (uint32_t i = 0; i < 1u << log2; i++) {
        rnic_put32(completion_at(ring, log2, i) + RNIC_CQE_OWNER, next, rnic->big);
    }
}

static void write_cq(struct rnic_command *command, const struct vipl_rnic *rnic, unsigned log2,
                     unsigned vector, uint64_t iova)
{
    rnic_put16(command->entry + RNIC_CMD_CQ_LOG2, (uint16_t)log2, rnic->big);
    rnic_put16(command->entry + RNIC_CMD_CQ_VECTOR, (uint16_t)vector, rnic->big);
    rnic_put64(command->entry + RNIC_CMD_CQ_BASE, iova, rnic->big);
}

static int create_on_card(struct vipl_rnic_cq *cq)
{
    struct vipl_rnic *rnic = cq->rnic;
    struct rnic_command command;
    struct rnic_answer answer;
    int error = vipl_rnic_block_get(&rnic->slabs, ring_bytes(cq->log2), true, &cq->ring);
    if (error != 0) {
        return error;
    }
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_CREATE_CQ, 0);
    write_cq(&command, rnic, cq->log2, cq->vector, cq->ring.iova);
    error = vipl_rnic_execute(rnic, &command, &answer);
    cq->number = error == 0 ? answer.info : 0;
    if (error == 0 && cq->number >= RNIC_QP_LIMIT) {
        vipl_rnic_fail(rnic, "the card numbers a completion queue wrongly");
        error = ENODEV;
    }
    if (error != 0) {
        vipl_rnic_block_put(&rnic->slabs, &cq->ring);
    }
    return error;
}

int vipl_rnic_create_cq(struct vipl_rnic *rnic, unsigned log2, unsigned vector, struct vipl_rnic_cq **out)
{
    if (log2 > rnic->caps.completions_log2) {
        return EINVAL;
    }
    struct vipl_rnic_cq *cq = vipl_zalloc(sizeof(*cq));
    if (cq == NULL) {
        return ENOMEM;
    }
    cq->rnic = rnic;
    cq->log2 = log2;
    cq->room = 1u << log2;
    cq->vector = vector;
    int error = create_on_card(cq);
    if (error != 0) {
        vipl_free(cq);
        return error;
    }
    *out = cq;
    return 0;
}

int vipl_rnic_destroy_cq(struct vipl_rnic_cq *cq)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, cq->rnic, RNIC_COMMAND_DESTROY_CQ, cq->number);
    int error = vipl_rnic_execute(cq->rnic, &command, NULL);
    if (error != 0 && error != ENODEV) {
        return error;
    }
    vipl_rnic_block_put(&cq->rnic->slabs, &cq->old);
    vipl_rnic_block_put(&cq->rnic->slabs, &cq->ring);
    vipl_free(cq);
    return error;
}

int vipl_rnic_grow_cq(struct vipl_rnic_cq *cq)
{
    struct vipl_rnic *rnic = cq->rnic;
    struct rnic_block ring;
    struct rnic_command command;
    struct rnic_answer answer;
    if (cq->old.base != NULL || cq->log2 == rnic->caps.completions_log2) {
        return cq->old.base != NULL ? EAGAIN : ENOSPC;
    }
    int error = vipl_rnic_block_get(&rnic->slabs, ring_bytes(cq->log2 + 1), true, &ring);
    if (error != 0) {
        return error;
    }
    fill_owners(rnic, &ring, cq->log2 + 1, cq->consumer);
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_RESIZE_CQ, cq->number);
    write_cq(&command, rnic, cq->log2 + 1, cq->vector, ring.iova);
    error = vipl_rnic_execute(rnic, &command, &answer);
    if (error != 0) {
        vipl_rnic_block_put(&rnic->slabs, &ring);
        return error;
    }
    cq->old = cq->ring;
    cq->old_log2 = cq->log2;
    cq->old_end = answer.info;
    cq->ring = ring;
    cq->log2++;
    vipl_rnic_release_cq(cq, 1u << cq->old_log2);
    return 0;
}

/* --- room --- */

bool vipl_rnic_reserve_cq(struct vipl_rnic_cq *cq, uint32_t count)
{
    uint32_t room = vipl_load_relaxed(&cq->room);
    while (room >= count) {
        if (vipl_compare_exchange(&cq->room, room, room - count)) {
            return true;
        }
        room = vipl_load_relaxed(&cq->room);
    }
    return false;
}

bool vipl_rnic_cq_has_room(const struct vipl_rnic_cq *cq)
{
    return vipl_load_relaxed(&cq->room) > 0;
}

void vipl_rnic_release_cq(struct vipl_rnic_cq *cq, uint32_t count)
{
    vipl_fetch_add(&cq->room, count);
}

/* --- taking --- */

/* The place of the next entry, also right after the ring has been replaced. */
static const uint8_t *next_entry(struct vipl_rnic_cq *cq)
{
    if (cq->old.base != NULL && cq->consumer == cq->old_end) {
        vipl_rnic_block_put(&cq->rnic->slabs, &cq->old);
        cq->old.base = NULL;
    }
    return cq->old.base != NULL ? completion_at(&cq->old, cq->old_log2, cq->consumer)
                                : completion_at(&cq->ring, cq->log2, cq->consumer);
}

static void read_completion(const uint8_t *entry, bool big, struct vipl_rnic_completion *out)
{
    out->qp = rnic_get32(entry + RNIC_CQE_QP, big);
    out->cookie = rnic_get32(entry + RNIC_CQE_COOKIE, big);
    out->length = rnic_get32(entry + RNIC_CQE_LENGTH, big);
    out->immediate = rnic_get32(entry + RNIC_CQE_IMMEDIATE, big);
    out->opcode = entry[RNIC_CQE_OPCODE];
    out->flags = entry[RNIC_CQE_FLAGS];
    out->status = rnic_get16(entry + RNIC_CQE_STATUS, big);
    out->index = rnic_get32(entry + RNIC_CQE_INFO, big);
    out->time = 0;
    if ((out->flags & RNIC_CQE_FLAG_TIME) != 0) {
        out->time = (uint64_t)rnic_get32(entry + RNIC_CQE_TIME_HIGH, big) << 32 | out->immediate;
    }
}

/* Room comes back by vipl_rnic_retire() and vipl_rnic_renew_qp(), which know for what it had been
 * reserved. */
unsigned vipl_rnic_poll_cq(struct vipl_rnic_cq *cq, struct vipl_rnic_completion *out, unsigned most)
{
    unsigned count = 0;
    while (count < most) {
        const uint8_t *entry = next_entry(cq);
        if (rnic_owner(entry + RNIC_CQE_OWNER) != cq->consumer + 1) {
            break;
        }
        read_completion(entry, cq->rnic->big, &out[count++]);
        cq->consumer++;
    }
    /* the card need not wake for it: what needs the room rings a doorbell of its own */
    if (count > 0) {
        vipl_rnic_store(cq->rnic, rnic_cq_doorbell(cq->number, RNIC_CQDB_CONSUMER), cq->consumer);
        vipl_rnic_hint(cq->rnic, rnic_cq_hint(cq->number));
    }
    return count;
}

void vipl_rnic_arm_cq(struct vipl_rnic_cq *cq)
{
    cq->arm_count++;
    vipl_rnic_store(cq->rnic, rnic_cq_doorbell(cq->number, RNIC_CQDB_CONSUMER), cq->consumer);
    vipl_rnic_ring(cq->rnic, rnic_cq_doorbell(cq->number, RNIC_CQDB_ARM), cq->arm_count,
                   rnic_cq_hint(cq->number));
}
