/* SPDX-License-Identifier: MIT */
/*
 * Events. What does not fit into the ring is kept where it costs nothing: a control message in its
 * flow, a queue pair's error in its row, which then is in a list.
 */
#include "devices/rnic/card/event.h"

#include <string.h>

#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/list.h"
#include "rnic/entry.h"

struct event {
    uint16_t kind;
    uint16_t code;
    uint32_t object;
    const struct rnic_message *message;
};

static bool event_ring_has_room(const struct rnic_fn *f)
{
    return f->event.next - f->event.producer < 1u << f->event.log2;
}

static void put_message(uint8_t *entry, const struct rnic_message *message, bool big)
{
    memcpy(entry + RNIC_EVT_PEER_MAC, message->from_mac, 6);
    rnic_put16(entry + RNIC_EVT_PEER_FUNCTION, message->from_fn, big);
    rnic_put32(entry + RNIC_EVT_LENGTH, message->length, big);
    memcpy(entry + RNIC_EVT_MESSAGE, message->bytes, message->length);
}

static bool store(struct rnic_card *card, unsigned fn, const struct event *event)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    bool big = f->big != 0;
    uint8_t entry[RNIC_EVT_OWNER] = {0};
    rnic_put16(entry + RNIC_EVT_KIND, event->kind, big);
    rnic_put16(entry + RNIC_EVT_CODE, event->code, big);
    rnic_put32(entry + RNIC_EVT_OBJECT, event->object, big);
    rnic_put32(entry + RNIC_EVT_MISSED, f->lost_events, big);
    if (event->message != NULL) {
        put_message(entry, event->message, big);
    }
    uint64_t at = f->event.base + (uint64_t)(f->event.next & ((1u << f->event.log2) - 1)) * RNIC_EVENT_BYTES;
    return rnic_dma_write(card, fn, 0, at, entry, sizeof(entry)) &&
           rnic_dma_publish(card, fn, 0, at + RNIC_EVT_OWNER, f->event.next + 1);
}

/* Writes an event; there is room. */
static void write_event(struct rnic_card *card, unsigned fn, const struct event *event)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    if (!store(card, fn, event)) {
        rnic_catastrophe(card, fn, RNIC_ERROR_RING_DMA, 0);
        return;
    }
    f->lost_events = 0;
    f->event.next++;
    rnic_interrupt_raise(card, fn, 0);
}

bool rnic_event_control(struct rnic_card *card, unsigned fn, const struct rnic_message *message)
{
    if (!event_ring_has_room(rnic_fn(card, fn))) {
        return false;
    }
    write_event(card, fn,
                &(struct event){.kind = RNIC_EVENT_CONTROL, .object = message->object, .message = message});
    return true;
}

void rnic_event_peer_lost(struct rnic_card *card, unsigned fn, const uint8_t mac[6], uint16_t peer_fn)
{
    struct rnic_message none = {.bytes = mac, .from_mac = mac, .from_fn = peer_fn};
    if (event_ring_has_room(rnic_fn(card, fn))) {
        write_event(card, fn, &(struct event){.kind = RNIC_EVENT_PEER_LOST, .message = &none});
    }
}

void rnic_event_qp(struct rnic_card *card, uint32_t qp, uint16_t code)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_fn *f = rnic_fn(card, row->fn);
    if (rnic_list_has(card, RNIC_LIST_EVENT, qp)) {
        f->lost_events++;
        return;
    }
    row->event = code;
    rnic_list_append(card, &f->events, RNIC_LIST_EVENT, qp);
    rnic_event_flush(card, row->fn);
}

void rnic_event_link(struct rnic_card *card, bool up)
{
    if (rnic_state(card)->link_up == up) {
        return;
    }
    rnic_state(card)->link_up = up;
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (rnic_works(card, fn)) {
            rnic_fn(card, fn)->tell_link = true;
            rnic_event_flush(card, fn);
        }
    }
}

void rnic_event_catastrophe(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    if (event_ring_has_room(f) &&
        store(card, fn, &(struct event){.kind = RNIC_EVENT_CATASTROPHIC, .code = (uint16_t)f->error_code})) {
        f->event.next++;
    }
}

void rnic_event_flush(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    uint32_t qp;
    if (f->tell_link && rnic_works(card, fn) && event_ring_has_room(f)) {
        f->tell_link = false;
        write_event(card, fn, &(struct event){.kind = RNIC_EVENT_LINK});
    }
    while (rnic_works(card, fn) && event_ring_has_room(f) &&
           rnic_list_pop(card, &f->events, RNIC_LIST_EVENT, &qp)) {
        write_event(
            card, fn,
            &(struct event){.kind = RNIC_EVENT_QP_ERROR, .code = rnic_qp(card, qp)->event, .object = qp});
    }
}
