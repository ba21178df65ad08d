/* SPDX-License-Identifier: MIT */
/*
 * Completion queues. The driver guarantees room for each entry. If there is none, or the ring
 * cannot be written, completions cannot be reported any more, and the function is in a catastrophe.
 */
#include "devices/rnic/card/cq.h"

#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/numbers.h"
#include "rnic/entry.h"

static uint64_t completion_at(const struct rnic_ring *ring, uint32_t index)
{
    return ring->base + (uint64_t)(index & ((1u << ring->log2) - 1)) * RNIC_COMPLETION_BYTES;
}

bool rnic_completion_write(struct rnic_card *card, unsigned fn, uint32_t object, const struct rnic_ring *ring,
                           uint32_t index, const struct rnic_completion *completion)
{
    bool big = rnic_fn(card, fn)->big != 0;
    uint8_t entry[RNIC_CQE_OWNER] = {0};
    rnic_put32(entry + RNIC_CQE_QP, completion->qp, big);
    rnic_put32(entry + RNIC_CQE_COOKIE, completion->cookie, big);
    rnic_put32(entry + RNIC_CQE_LENGTH, completion->length, big);
    rnic_put32(entry + RNIC_CQE_IMMEDIATE, completion->immediate, big);
    entry[RNIC_CQE_OPCODE] = completion->opcode;
    entry[RNIC_CQE_FLAGS] = completion->flags;
    rnic_put16(entry + RNIC_CQE_STATUS, completion->status, big);
    rnic_put32(entry + RNIC_CQE_INFO, completion->info, big);
    rnic_put32(entry + RNIC_CQE_TIME_HIGH, completion->time_high, big);
    return rnic_dma_write(card, fn, object, completion_at(ring, index), entry, sizeof(entry));
}

bool rnic_completion_publish(struct rnic_card *card, unsigned fn, uint32_t object,
                             const struct rnic_ring *ring, uint32_t index)
{
    return rnic_dma_publish(card, fn, object, completion_at(ring, index) + RNIC_CQE_OWNER, index + 1);
}

static void publish_completions(struct rnic_card *card, uint32_t cq)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    bool any = row->published != row->ring.next;
    while (row->published != row->ring.next) {
        if (!rnic_completion_publish(card, row->fn, cq, &row->ring, row->published)) {
            rnic_catastrophe(card, row->fn, RNIC_ERROR_RING_DMA, cq);
            return;
        }
        row->published++;
    }
    if (any && row->armed) {
        row->armed = false;
        rnic_interrupt_raise(card, row->fn, row->vector);
    }
}

/* A ring that looks full may have been emptied since its doorbell was seen last. */
static bool cq_has_room(struct rnic_card *card, uint32_t cq)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    uint32_t arm;
    if (row->ring.next - row->ring.producer >= 1u << row->ring.log2) {
        rnic_doorbell_look_cq(card, cq, &row->ring.producer, &arm);
    }
    return row->ring.next - row->ring.producer < 1u << row->ring.log2;
}

void rnic_cq_complete(struct rnic_card *card, uint32_t cq, const struct rnic_completion *completion)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    if (!rnic_works(card, row->fn)) {
        return;
    }
    if (!cq_has_room(card, cq)) {
        rnic_catastrophe(card, row->fn, RNIC_ERROR_CQ_OVERRUN, cq);
        return;
    }
    if (!rnic_completion_write(card, row->fn, cq, &row->ring, row->ring.next, completion)) {
        rnic_catastrophe(card, row->fn, RNIC_ERROR_RING_DMA, cq);
        return;
    }
    row->ring.next++;
    if (!rnic_fault_keeps_back(card, cq)) {
        publish_completions(card, cq);
    }
}

void rnic_cq_advance(struct rnic_card *card)
{
    uint32_t cq;
    if (rnic_fault_releases(card, &cq) && rnic_works(card, rnic_cq(card, cq)->fn)) {
        publish_completions(card, cq);
    }
}

void rnic_cq_look(struct rnic_card *card, uint32_t cq)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    uint32_t arm;
    rnic_doorbell_look_cq(card, cq, &row->ring.producer, &arm);
    if (arm == row->arm) {
        return;
    }
    row->arm = arm;
    if (row->published != row->ring.producer) {
        row->armed = false;
        rnic_interrupt_raise(card, row->fn, row->vector);
    } else {
        row->armed = true;
    }
}

void rnic_cq_free(struct rnic_card *card, uint32_t cq)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    rnic_fault_forgets(card, cq);
    rnic_fn(card, row->fn)->used_cqs--;
    rnic_doorbell_clear_cq(card, row->fn, cq);
    rnic_numbers_give(card, &rnic_state(card)->cqs, cq);
}

/* --- commands --- */

static bool read_ring(const struct rnic_command *command, struct rnic_ring *ring)
{
    ring->log2 = rnic_command16(command, RNIC_CMD_CQ_LOG2);
    ring->base = rnic_command64(command, RNIC_CMD_CQ_BASE);
    return ring->base % 64 == 0 && ring->log2 >= RNIC_LOG2_MIN && ring->log2 <= RNIC_COMPLETION_LOG2_MAX;
}

uint16_t rnic_cq_create(struct rnic_card *card, struct rnic_command *command)
{
    struct rnic_ring ring = {0};
    uint16_t vector = rnic_command16(command, RNIC_CMD_CQ_VECTOR);
    uint32_t cq;
    if (!read_ring(command, &ring) || vector == 0 || vector >= RNIC_VECTORS) {
        return RNIC_STATUS_INVALID;
    }
    if (!rnic_numbers_take(card, &rnic_state(card)->cqs, command->fn, &cq)) {
        return RNIC_STATUS_NO_ROOM;
    }
    *rnic_cq(card, cq) = (struct rnic_cq){.ring = ring, .fn = (uint16_t)command->fn, .vector = vector};
    rnic_doorbell_clear_cq(card, command->fn, cq);
    rnic_fn(card, command->fn)->used_cqs++;
    command->answer.info = cq;
    return RNIC_STATUS_OK;
}

uint16_t rnic_cq_resize(struct rnic_card *card, struct rnic_command *command)
{
    struct rnic_ring ring = {0};
    if (!rnic_numbers_owns(card, &rnic_state(card)->cqs, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    struct rnic_cq *row = rnic_cq(card, command->object);
    uint16_t vector = rnic_command16(command, RNIC_CMD_CQ_VECTOR);
    bool good = read_ring(command, &ring) && vector != 0 && vector < RNIC_VECTORS;
    if (!good || ring.log2 < row->ring.log2) {
        return RNIC_STATUS_INVALID;
    }
    publish_completions(card, command->object); /* entries of the old ring are told there */
    row->ring.base = ring.base;
    row->ring.log2 = ring.log2;
    row->vector = vector;
    command->answer.info = row->ring.next;
    return RNIC_STATUS_OK;
}

uint16_t rnic_cq_destroy(struct rnic_card *card, struct rnic_command *command)
{
    if (!rnic_numbers_owns(card, &rnic_state(card)->cqs, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    if (rnic_cq(card, command->object)->users > 0) {
        return RNIC_STATUS_BUSY;
    }
    rnic_cq_free(card, command->object);
    return RNIC_STATUS_OK;
}
