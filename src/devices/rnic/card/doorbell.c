/* SPDX-License-Identifier: MIT */
/*
 * Doorbells. The other side of each access here is the driver, in another process: bytes and
 * aligned words only, with the orders of the data sheet's section 4. The card never believes what
 * it reads: an index is compared with the ring's size where it is used.
 */
#include "devices/rnic/card/doorbell.h"

#include <string.h>

#include "devices/rnic/card/record.h"
#include "rnic/entry.h"

enum { DOORBELL = 64 };

/* --- words --- */

/* Pairs with the driver's release store of the same word. */
uint32_t rnic_doorbell_load(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    if (card->bar2[fn] == NULL) {
        return 0;
    }
    uint32_t word =
        __atomic_load_n((const uint32_t *)(const void *)(card->bar2[fn] + offset), __ATOMIC_ACQUIRE);
    uint8_t bytes[4];
    memcpy(bytes, &word, sizeof(bytes));
    rnic_loaded(card, fn, 2, offset, bytes, sizeof(bytes));
    return rnic_get32(bytes, rnic_fn(card, fn)->big != 0);
}

void rnic_doorbell_store(const struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value)
{
    uint8_t bytes[4];
    uint32_t word;
    rnic_put32(bytes, value, rnic_fn(card, fn)->big != 0);
    memcpy(&word, bytes, sizeof(word));
    if (card->bar2[fn] != NULL) {
        __atomic_store_n((uint32_t *)(void *)(card->bar2[fn] + offset), word, __ATOMIC_RELEASE);
        rnic_stored(card, fn, 2, offset, bytes, sizeof(bytes));
    }
}

static uint32_t qp_at(uint32_t qp)
{
    return RNIC_DB_QP + DOORBELL * qp;
}
static uint32_t cq_at(uint32_t cq)
{
    return RNIC_DB_CQ + DOORBELL * cq;
}

/* --- one doorbell --- */

bool rnic_doorbell_holds(const struct rnic_card *card, uint32_t qp)
{
    return rnic_doorbell_load(card, rnic_qp(card, qp)->fn, qp_at(qp) + RNIC_QPDB_RQ_HELD) != 0;
}

void rnic_doorbell_tell(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t before, uint32_t now)
{
    if (before != now) {
        rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_DOORBELL,
                                                      .fn = (uint16_t)fn,
                                                      .address = offset,
                                                      .value = now});
    }
}

void rnic_doorbell_look_qp(struct rnic_card *card, uint32_t qp, uint32_t *sq, uint32_t *rq)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    *sq = rnic_doorbell_load(card, row->fn, qp_at(qp) + RNIC_QPDB_SQ);
    *rq = rnic_doorbell_load(card, row->fn, qp_at(qp) + RNIC_QPDB_RQ);
    rnic_doorbell_tell(card, row->fn, qp_at(qp) + RNIC_QPDB_SQ, row->sq.producer, *sq);
    rnic_doorbell_tell(card, row->fn, qp_at(qp) + RNIC_QPDB_RQ, row->rq.producer, *rq);
}

void rnic_doorbell_look_cq(struct rnic_card *card, uint32_t cq, uint32_t *consumer, uint32_t *arm)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    /* The counter first: the consumer index that was stored before it is seen with it. */
    *arm = rnic_doorbell_load(card, row->fn, cq_at(cq) + RNIC_CQDB_ARM);
    *consumer = rnic_doorbell_load(card, row->fn, cq_at(cq) + RNIC_CQDB_CONSUMER);
    rnic_doorbell_tell(card, row->fn, cq_at(cq) + RNIC_CQDB_CONSUMER, row->ring.producer, *consumer);
    rnic_doorbell_tell(card, row->fn, cq_at(cq) + RNIC_CQDB_ARM, row->arm, *arm);
}

void rnic_doorbell_clear_qp(struct rnic_card *card, unsigned fn, uint32_t qp)
{
    rnic_doorbell_store(card, fn, qp_at(qp) + RNIC_QPDB_SQ, 0);
    rnic_doorbell_store(card, fn, qp_at(qp) + RNIC_QPDB_RQ, 0);
    rnic_doorbell_store(card, fn, qp_at(qp) + RNIC_QPDB_RQ_HELD, 0);
}

void rnic_doorbell_clear_cq(struct rnic_card *card, unsigned fn, uint32_t cq)
{
    rnic_doorbell_store(card, fn, cq_at(cq) + RNIC_CQDB_CONSUMER, 0);
    rnic_doorbell_store(card, fn, cq_at(cq) + RNIC_CQDB_ARM, 0);
}

void rnic_doorbell_clear(struct rnic_card *card, unsigned fn)
{
    if (card->bar2[fn] == NULL) {
        return;
    }
    rnic_doorbell_store(card, fn, RNIC_DB_ASLEEP, 0);
    rnic_doorbell_store(card, fn, RNIC_DB_COMMAND_PRODUCER, 0);
    rnic_doorbell_store(card, fn, RNIC_DB_EVENT_CONSUMER, 0);
    rnic_doorbell_store(card, fn, RNIC_DB_AOTF_DONE, 0);
    for (uint32_t at = 0; at < 2 * RNIC_QP_LIMIT / RNIC_GROUP; at += 4) {
        rnic_doorbell_store(card, fn, RNIC_DB_QP_HINTS + at, 0);
    }
}

/* --- the bus --- */

uint64_t rnic_doorbell_bus_read(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && offset < RNIC_BAR2_BYTES - i && card->bar2[fn] != NULL; i++) {
        value |= (uint64_t)__atomic_load_n(card->bar2[fn] + offset + i, __ATOMIC_RELAXED) << 8 * i;
    }
    return value;
}

/* The hint that the driver need not set if the bus carries its store. */
static void imply_hint(struct rnic_card *card, unsigned fn, uint64_t offset)
{
    uint32_t hint = 0;
    if (offset >= RNIC_DB_QP && offset < RNIC_DB_QP + (uint64_t)DOORBELL * RNIC_QP_LIMIT) {
        hint = RNIC_DB_QP_HINTS + (uint32_t)(offset - RNIC_DB_QP) / DOORBELL / RNIC_GROUP;
    } else if (offset >= RNIC_DB_CQ && offset < RNIC_DB_CQ + (uint64_t)DOORBELL * RNIC_QP_LIMIT) {
        hint = RNIC_DB_CQ_HINTS + (uint32_t)(offset - RNIC_DB_CQ) / DOORBELL / RNIC_GROUP;
    }
    if (hint != 0) {
        static const uint8_t set = 1;
        __atomic_store_n(card->bar2[fn] + hint, set, __ATOMIC_RELEASE);
        rnic_stored(card, fn, 2, hint, &set, sizeof(set));
    }
}

void rnic_doorbell_bus_write(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                             uint64_t value)
{
    uint8_t *bar2 = card->bar2[fn];
    uint8_t data[8];
    if (bar2 == NULL || offset >= RNIC_BAR2_BYTES || bytes > RNIC_BAR2_BYTES - offset) {
        return;
    }
    for (unsigned i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(value >> 8 * i);
    }
    if (bytes == 4 && offset % 4 == 0) { /* whole, as the driver's own store is */
        uint32_t word;
        memcpy(&word, data, sizeof(word));
        __atomic_store_n((uint32_t *)(void *)(bar2 + offset), word, __ATOMIC_RELEASE);
    } else {
        for (unsigned i = 0; i < bytes; i++) {
            __atomic_store_n(bar2 + offset + i, data[i], __ATOMIC_RELEASE);
        }
    }
    rnic_stored(card, fn, 2, offset, data, bytes);
    imply_hint(card, fn, offset);
    rnic_state(card)->kick = true;
}
