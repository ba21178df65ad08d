/* SPDX-License-Identifier: MIT */
/*
 * Doorbells. The other side of each access here is the driver, in another process: bytes and aligned words only, with the orders of the
 * data sheet's section 4. The card never believes what it reads: an index is compared with the ring's size where it is used.
 */
#include "devices/rnic/doorbell.h"

#include <string.h>

#include "devices/rnic/command.h"
#include "devices/rnic/cq.h"
#include "devices/rnic/dma.h"
#include "devices/rnic/event.h"
#include "devices/rnic/faults.h"
#include "devices/rnic/numbers.h"
#include "devices/rnic/qp.h"
#include "devices/rnic/reset.h"
#include "rnic/entry.h"

enum { DOORBELL = 64 };

/* --- words ----------------------------------------------------------------------------------------- */

/* Pairs with the driver's release store of the same word. */
static uint32_t load(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    if (card->bar2[fn] == NULL) {
        return 0;
    }
    uint32_t word =
        __atomic_load_n((const uint32_t *)(const void *)(card->bar2[fn] + offset), __ATOMIC_ACQUIRE);
    uint8_t bytes[4];
    memcpy(bytes, &word, sizeof(bytes));
    return rnic_get32(bytes, rnic_fn(card, fn)->big != 0);
}

static void store(const struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value)
{
    uint8_t bytes[4];
    uint32_t word;
    rnic_put32(bytes, value, rnic_fn(card, fn)->big != 0);
    memcpy(&word, bytes, sizeof(word));
    if (card->bar2[fn] != NULL) {
        __atomic_store_n((uint32_t *)(void *)(card->bar2[fn] + offset), word, __ATOMIC_RELEASE);
    }
}

/* Four hint bytes at once, to see whether any is set. */
static bool any_hint(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    return __atomic_load_n((const uint32_t *)(const void *)(card->bar2[fn] + offset), __ATOMIC_RELAXED) != 0;
}

/* Pairs with the driver's release store of the hint: what it stored before is seen after this. */
static bool take_hint(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    return __atomic_exchange_n(card->bar2[fn] + offset, 0, __ATOMIC_ACQ_REL) != 0;
}

static uint32_t qp_at(uint32_t qp)
{
    return RNIC_DB_QP + DOORBELL * qp;
}
static uint32_t cq_at(uint32_t cq)
{
    return RNIC_DB_CQ + DOORBELL * cq;
}

/* --- one doorbell ------------------------------------------------------------------------------------ */

uint32_t rnic_doorbell_sq(const struct rnic_card *card, uint32_t qp)
{
    return load(card, rnic_qp(card, qp)->fn, qp_at(qp) + RNIC_QPDB_SQ);
}
uint32_t rnic_doorbell_rq(const struct rnic_card *card, uint32_t qp)
{
    return load(card, rnic_qp(card, qp)->fn, qp_at(qp) + RNIC_QPDB_RQ);
}

bool rnic_doorbell_holds(const struct rnic_card *card, uint32_t qp)
{
    return load(card, rnic_qp(card, qp)->fn, qp_at(qp) + RNIC_QPDB_RQ_HELD) != 0;
}

static void tell_change(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t before, uint32_t now)
{
    if (before != now) {
        rnic_cross(card,
                   (struct rnic_crossing){
                       .kind = RNIC_CROSSING_DOORBELL, .fn = (uint16_t)fn, .address = offset, .value = now});
    }
}

void rnic_doorbell_look_qp(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    uint32_t sq = rnic_doorbell_sq(card, qp);
    uint32_t rq = rnic_doorbell_rq(card, qp);
    tell_change(card, row->fn, qp_at(qp) + RNIC_QPDB_SQ, row->sq.producer, sq);
    tell_change(card, row->fn, qp_at(qp) + RNIC_QPDB_RQ, row->rq.producer, rq);
    rnic_qp_doorbell(card, qp, sq, rq);
}

void rnic_doorbell_look_cq(struct rnic_card *card, uint32_t cq, uint32_t *consumer, uint32_t *arm)
{
    struct rnic_cq *row = rnic_cq(card, cq);
    /* The counter first: the consumer index that was stored before it is seen with it. */
    *arm = load(card, row->fn, cq_at(cq) + RNIC_CQDB_ARM);
    *consumer = load(card, row->fn, cq_at(cq) + RNIC_CQDB_CONSUMER);
    tell_change(card, row->fn, cq_at(cq) + RNIC_CQDB_CONSUMER, row->ring.producer, *consumer);
    tell_change(card, row->fn, cq_at(cq) + RNIC_CQDB_ARM, row->arm, *arm);
}

void rnic_doorbell_clear_qp(struct rnic_card *card, unsigned fn, uint32_t qp)
{
    store(card, fn, qp_at(qp) + RNIC_QPDB_SQ, 0);
    store(card, fn, qp_at(qp) + RNIC_QPDB_RQ, 0);
    store(card, fn, qp_at(qp) + RNIC_QPDB_RQ_HELD, 0);
}

void rnic_doorbell_clear_cq(struct rnic_card *card, unsigned fn, uint32_t cq)
{
    store(card, fn, cq_at(cq) + RNIC_CQDB_CONSUMER, 0);
    store(card, fn, cq_at(cq) + RNIC_CQDB_ARM, 0);
}

void rnic_doorbell_clear(struct rnic_card *card, unsigned fn)
{
    if (card->bar2[fn] == NULL) {
        return;
    }
    store(card, fn, RNIC_DB_ASLEEP, 0);
    store(card, fn, RNIC_DB_COMMAND_PRODUCER, 0);
    store(card, fn, RNIC_DB_EVENT_CONSUMER, 0);
    for (uint32_t at = 0; at < 2 * RNIC_MOST_QPS / RNIC_GROUP; at += 4) {
        store(card, fn, RNIC_DB_QP_HINTS + at, 0);
    }
}

/* --- scanning ---------------------------------------------------------------------------------------- */

static uint32_t groups(const struct rnic_numbers *numbers)
{
    return (numbers->fresh + RNIC_GROUP - 1) / RNIC_GROUP;
}

static void look_at_qps(struct rnic_card *card, unsigned fn, uint32_t group)
{
    const struct rnic_numbers *qps = &rnic_state(card)->qps;
    for (uint32_t qp = group * RNIC_GROUP; qp < (group + 1) * RNIC_GROUP; qp++) {
        if (rnic_numbers_owns(card, qps, fn, qp)) {
            rnic_doorbell_look_qp(card, qp);
        }
    }
}

static void look_at_cqs(struct rnic_card *card, unsigned fn, uint32_t group)
{
    const struct rnic_numbers *cqs = &rnic_state(card)->cqs;
    for (uint32_t cq = group * RNIC_GROUP; cq < (group + 1) * RNIC_GROUP; cq++) {
        if (rnic_numbers_owns(card, cqs, fn, cq)) {
            rnic_cq_doorbell(card, cq);
        }
    }
}

/* Calls `look` for each group whose hint is set, or for all. */
static void scan_hints(struct rnic_card *card, unsigned fn, uint32_t hints, uint32_t count, bool all,
                       void (*look)(struct rnic_card *card, unsigned fn, uint32_t group))
{
    for (uint32_t group = 0; group < count; group++) {
        if (group % 4 == 0 && !all && !any_hint(card, fn, hints + group)) {
            group += 3;
        } else if (take_hint(card, fn, hints + group) || all) {
            look(card, fn, group);
        }
    }
}

static void scan_function(struct rnic_card *card, unsigned fn)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_fn *f = rnic_fn(card, fn);
    bool all = f->scan_all;
    f->scan_all = false;
    f->command.producer = load(card, fn, RNIC_DB_COMMAND_PRODUCER);
    uint32_t consumer = load(card, fn, RNIC_DB_EVENT_CONSUMER);
    if (consumer != f->event.producer) {
        f->event.producer = consumer;
        rnic_event_flush(card, fn);
    }
    scan_hints(card, fn, RNIC_DB_CQ_HINTS, groups(&state->cqs), all, look_at_cqs);
    scan_hints(card, fn, RNIC_DB_QP_HINTS, groups(&state->qps), all, look_at_qps);
}

/* A fault may keep the card from looking for some time. */
static bool looks(const struct rnic_card *card, unsigned fn)
{
    return card->bar2[fn] != NULL && rnic_works(card, fn) &&
           rnic_fn(card, fn)->deaf_until <= rnic_state(card)->now;
}

static bool hinted(const struct rnic_card *card, unsigned fn, uint32_t hints, uint32_t count)
{
    for (uint32_t group = 0; group < count; group += 4) {
        if (any_hint(card, fn, hints + group)) {
            return true;
        }
    }
    return false;
}

static bool any_of(const struct rnic_card *card, unsigned fn)
{
    const struct rnic_state *state = rnic_state(card);
    const struct rnic_fn *f = rnic_fn(card, fn);
    return f->scan_all || load(card, fn, RNIC_DB_COMMAND_PRODUCER) != f->command.producer ||
           load(card, fn, RNIC_DB_EVENT_CONSUMER) != f->event.producer ||
           hinted(card, fn, RNIC_DB_QP_HINTS, groups(&state->qps)) ||
           hinted(card, fn, RNIC_DB_CQ_HINTS, groups(&state->cqs));
}

void rnic_doorbell_scan(struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (looks(card, fn) && !(any_of(card, fn) && rnic_fault_doorbell(card, fn))) {
            scan_function(card, fn);
        }
    }
}

bool rnic_doorbell_any(const struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (looks(card, fn) && any_of(card, fn)) {
            return true;
        }
    }
    return false;
}

void rnic_doorbell_asleep(struct rnic_card *card, bool asleep)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (card->bar2[fn] != NULL && rnic_fn(card, fn)->enabled) {
            store(card, fn, RNIC_DB_ASLEEP, asleep);
        }
    }
    /* Pairs with the driver's fence between its stores and its load of ASLEEP: one of the two sees the other. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* --- the bus ------------------------------------------------------------------------------------------ */

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
    if (offset >= RNIC_DB_QP && offset < RNIC_DB_QP + (uint64_t)DOORBELL * RNIC_MOST_QPS) {
        hint = RNIC_DB_QP_HINTS + (uint32_t)(offset - RNIC_DB_QP) / DOORBELL / RNIC_GROUP;
    } else if (offset >= RNIC_DB_CQ && offset < RNIC_DB_CQ + (uint64_t)DOORBELL * RNIC_MOST_QPS) {
        hint = RNIC_DB_CQ_HINTS + (uint32_t)(offset - RNIC_DB_CQ) / DOORBELL / RNIC_GROUP;
    }
    if (hint != 0) {
        __atomic_store_n(card->bar2[fn] + hint, 1, __ATOMIC_RELEASE);
    }
}

void rnic_doorbell_bus_write(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                             uint64_t value)
{
    uint8_t *bar2 = card->bar2[fn];
    if (bar2 == NULL || offset >= RNIC_DB_WINDOWS || bytes > RNIC_DB_WINDOWS - offset) {
        return;
    }
    if (bytes == 4 && offset % 4 == 0) { /* whole, as the driver's own store is */
        uint8_t word[4];
        uint32_t stored;
        rnic_put32(word, (uint32_t)value, false);
        memcpy(&stored, word, sizeof(stored));
        __atomic_store_n((uint32_t *)(void *)(bar2 + offset), stored, __ATOMIC_RELEASE);
    } else {
        for (unsigned i = 0; i < bytes; i++) {
            __atomic_store_n(bar2 + offset + i, (uint8_t)(value >> 8 * i), __ATOMIC_RELEASE);
        }
    }
    imply_hint(card, fn, offset);
    rnic_state(card)->kick = true;
}
