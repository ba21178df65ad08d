/* SPDX-License-Identifier: MIT */
/* Scanning, sleeping and waking: the card's half of the protocol of the data sheet's section 4. */
#include "devices/rnic/card/steps.h"

#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/record.h"

/* Four hint bytes at once, to see whether any is set. */
static bool any_hint(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    uint32_t word =
        __atomic_load_n((const uint32_t *)(const void *)(card->bar2[fn] + offset), __ATOMIC_RELAXED);
    rnic_loaded(card, fn, 2, offset, &word, sizeof(word));
    return word != 0;
}

/* Pairs with the driver's release store of the hint: what it stored before is seen after this. */
static bool take_hint(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    static const uint8_t none = 0;
    uint8_t hint = __atomic_exchange_n(card->bar2[fn] + offset, none, __ATOMIC_ACQ_REL);
    rnic_loaded(card, fn, 2, offset, &hint, sizeof(hint));
    rnic_stored(card, fn, 2, offset, &none, sizeof(none));
    return hint != 0;
}

static uint32_t groups(const struct rnic_numbers *numbers)
{
    return (numbers->fresh + RNIC_GROUP - 1) / RNIC_GROUP;
}

static void look_at_qps(struct rnic_card *card, unsigned fn, uint32_t group)
{
    const struct rnic_numbers *qps = &rnic_state(card)->qps;
    for (uint32_t qp = group * RNIC_GROUP; qp < (group + 1) * RNIC_GROUP; qp++) {
        if (rnic_numbers_owns(card, qps, fn, qp)) {
            rnic_qp_look(card, qp);
        }
    }
}

static void look_at_cqs(struct rnic_card *card, unsigned fn, uint32_t group)
{
    const struct rnic_numbers *cqs = &rnic_state(card)->cqs;
    for (uint32_t cq = group * RNIC_GROUP; cq < (group + 1) * RNIC_GROUP; cq++) {
        if (rnic_numbers_owns(card, cqs, fn, cq)) {
            rnic_cq_look(card, cq);
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
    uint32_t producer = rnic_doorbell_load(card, fn, RNIC_DB_COMMAND_PRODUCER);
    uint32_t consumer = rnic_doorbell_load(card, fn, RNIC_DB_EVENT_CONSUMER);
    rnic_doorbell_tell(card, fn, RNIC_DB_COMMAND_PRODUCER, f->command.producer, producer);
    rnic_doorbell_tell(card, fn, RNIC_DB_EVENT_CONSUMER, f->event.producer, consumer);
    f->command.producer = producer;
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
    return f->scan_all || rnic_doorbell_load(card, fn, RNIC_DB_COMMAND_PRODUCER) != f->command.producer ||
           rnic_doorbell_load(card, fn, RNIC_DB_EVENT_CONSUMER) != f->event.producer ||
           hinted(card, fn, RNIC_DB_QP_HINTS, groups(&state->qps)) ||
           hinted(card, fn, RNIC_DB_CQ_HINTS, groups(&state->cqs));
}

void rnic_scan(struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (looks(card, fn) && !(any_of(card, fn) && rnic_fault_doorbell(card, fn))) {
            scan_function(card, fn);
        }
    }
}

bool rnic_scan_any(const struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (looks(card, fn) && any_of(card, fn)) {
            return true;
        }
    }
    return false;
}

void rnic_scan_asleep(struct rnic_card *card, bool asleep)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (card->bar2[fn] != NULL && rnic_fn(card, fn)->enabled) {
            rnic_doorbell_store(card, fn, RNIC_DB_ASLEEP, asleep);
        }
    }
    /* Pairs with the driver's fence between its stores and its load of ASLEEP: one of the two sees
     * the other. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
