/* SPDX-License-Identifier: MIT */
/*
 * The card's frames. Downwards: EFE gives them to the switch, which delivers them here or sends
 * them out. Upwards: EFE hands over numbered frames in their order, and each goes to the file that
 * understands it.
 */
#include "devices/rnic/card/wire.h"

#include <string.h>

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/list.h"
#include "devices/rnic/card/message.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/requester.h"
#include "devices/rnic/card/responder.h"
#include "devices/rnic/card/schedule.h"
#include "iwarp/bytes.h"

enum { FROM_FN_AT = 18, TO_FN_AT = 20 /* of a frame */ };

static const struct efe_host efe_callbacks;
static const struct rnic_switch_host switch_callbacks;

static struct rnic_switch switch_of(const struct rnic_card *card)
{
    return (struct rnic_switch){rnic_at(card, rnic_state(card)->wire_switch), &switch_callbacks,
                                (void *)(uintptr_t)card};
}
static uint64_t now_of(const struct rnic_card *card)
{
    return rnic_state(card)->now;
}

/* --- the area --- */

static struct efe_config efe_config_of(const struct rnic_card_config *config)
{
    struct efe_config efe = {.functions = config->functions,
                             .flows = config->flows,
                             .frames = config->frames,
                             .mtu = config->mtu,
                             .seed = config->seed,
                             .simulated = config->simulated};
    memcpy(efe.mac, config->mac, sizeof(efe.mac));
    return efe;
}

static struct rnic_switch_config switch_config_of(const struct rnic_card_config *config)
{
    struct rnic_switch_config wire = {
        .functions = config->functions, .frames = config->frames, .mtu = config->mtu};
    memcpy(wire.mac, config->mac, sizeof(wire.mac));
    rnic_cost_wire(config, &wire.impair);
    return wire;
}

size_t rnic_wire_efe_bytes(const struct rnic_card_config *config)
{
    struct efe_config efe = efe_config_of(config);
    return efe_bytes(&efe);
}

size_t rnic_wire_switch_bytes(const struct rnic_card_config *config)
{
    struct rnic_switch_config wire = switch_config_of(config);
    return rnic_switch_bytes(&wire);
}

void rnic_wire_init(struct rnic_card *card)
{
    struct efe_config efe_config = efe_config_of(&rnic_state(card)->config);
    struct rnic_switch_config switch_config = switch_config_of(&rnic_state(card)->config);
    card->flows = &efe_callbacks;
    struct efe efe = rnic_flow_efe(card);
    struct rnic_switch wire = switch_of(card);
    efe_init(&efe, efe.area, &efe_config, &efe_callbacks, card);
    rnic_switch_init(&wire, wire.area, &switch_config, &switch_callbacks, card);
    rnic_wire_impair(card, &switch_config.impair);
}

bool rnic_wire_continue(struct rnic_card *card, bool swaps)
{
    struct rnic_state *state = rnic_state(card);
    struct efe_config efe_config = efe_config_of(&state->config);
    struct rnic_switch_config switch_config = switch_config_of(&state->config);
    card->flows = &efe_callbacks;
    return !swaps || (efe_swap(rnic_at(card, state->efe), &efe_config) &&
                      rnic_switch_swap(rnic_at(card, state->wire_switch), &switch_config));
}

void rnic_wire_impair(struct rnic_card *card, const struct rnic_impair_config *impair)
{
    struct rnic_switch wire = switch_of(card);
    rnic_switch_impair(&wire, impair);
    rnic_state(card)->wire_mbits = (uint32_t)((impair->rate + 999999) / 1000000);
}

uint32_t rnic_wire_mbits(const struct rnic_card *card)
{
    return rnic_state(card)->wire_mbits;
}

/* --- down --- */

static void tell_frame(struct rnic_card *card, enum rnic_transaction_kind kind, unsigned fn,
                       const uint8_t *frame, uint32_t bytes)
{
    rnic_transact(card,
                  (struct rnic_transaction){.kind = kind, .fn = (uint16_t)fn, .bytes = bytes, .data = frame});
}

void rnic_wire_count(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    struct efe efe = rnic_flow_efe(card);
    uint64_t resent = efe_counted(&efe)->resent;
    if (state->last_sender < state->config.functions) {
        rnic_count(card, state->last_sender, RNIC_COUNT_RESENT, resent - state->resent);
    }
    state->resent = resent;
}

/* EFE has a frame for the switch. It counts repetitions behind this call. */
static bool on_transmit(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_card *card = context;
    struct rnic_switch wire = switch_of(card);
    rnic_wire_count(card);
    rnic_state(card)->last_sender = vipl_get16(frame + FROM_FN_AT);
    if (!rnic_switch_send(&wire, now_of(card), rnic_cost_now(card), frame, bytes)) {
        return false;
    }
    tell_frame(card, RNIC_TRANSACTION_FRAME_SENT, vipl_get16(frame + FROM_FN_AT), frame, bytes);
    return true;
}

uint64_t rnic_wire_room(const struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_switch wire = switch_of(card);
    return rnic_switch_room(&wire, frame, bytes);
}

bool rnic_wire_send(struct rnic_card *card, unsigned fn, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_switch wire = switch_of(card);
    if (!rnic_switch_send_raw(&wire, now_of(card), rnic_cost_now(card), frame, bytes)) {
        return false;
    }
    tell_frame(card, RNIC_TRANSACTION_FRAME_SENT, fn, frame, bytes);
    rnic_count(card, fn, RNIC_COUNT_TX_FRAMES, 1);
    rnic_count(card, fn, RNIC_COUNT_TX_BYTES, bytes);
    return true;
}

/* The switch has a frame for the wire. */
static void on_leave(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_card *card = context;
    if (rnic_fault_link(card)) {
        rnic_event_link(card, false);
    }
    if (rnic_state(card)->link_up) {
        card->host->transmit(card->context, frame, bytes);
    }
}

/* The switch has a frame for this adapter. */
static void on_arrive(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_card *card = context;
    struct efe efe = rnic_flow_efe(card);
    bool raw = rnic_raw_wants(card, frame, bytes);
    unsigned fn = raw || bytes < EFE_PAYLOAD_AT ? RNIC_FUNCTION_ADAPTER : vipl_get16(frame + TO_FN_AT);
    tell_frame(card, RNIC_TRANSACTION_FRAME_RECEIVED, fn, frame, bytes);
    if (raw) {
        rnic_raw_arrive(card, frame, bytes);
        return;
    }
    efe_receive(&efe, now_of(card), frame, bytes);
}

void rnic_wire_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_switch wire = switch_of(card);
    if (state->link_up && !state->removed) {
        /* in simulated time the frame waits for its turn in the receive engine; a raw one always
         * waits for the next advance, whose time its completion has */
        bool waits = state->config.simulated || rnic_raw_wants(card, frame, bytes);
        if (!waits || !rnic_switch_take(&wire, frame, bytes)) {
            on_arrive(card, frame, bytes);
        }
        state->kick = true;
    }
}

/* --- up --- */

/* The flow is tried again in the next advance. */
static void stall(struct rnic_card *card, uint32_t number)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_flow *flow = rnic_flow(card, number);
    if (!flow->stalled) {
        flow->stalled = true;
        flow->behind_stalled = state->stalled;
        state->stalled = number + 1;
    }
}

static bool take_message_ack(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                             const uint8_t *payload)
{
    uint32_t qp;
    if (rnic_responder_find(card, flow, header, &qp)) {
        rnic_requester_message_acked(card, qp, payload, header->payload_bytes);
    }
    return true;
}

static bool take_frame(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                       const uint8_t *payload)
{
    switch (header->type) {
    case EFE_DATA:
        return rnic_responder_take(card, flow, header, payload);
    case EFE_CONTROL:
        return rnic_message_take(card, flow, header, payload);
    default:
        return take_message_ack(card, flow, header, payload);
    }
}

static bool on_deliver(void *context, uint32_t flow, const struct efe_header *header, const uint8_t *payload)
{
    struct rnic_card *card = context;
    bool adapter = header->to_fn == RNIC_FUNCTION_ADAPTER;
    if (!adapter && !rnic_works(card, header->to_fn)) {
        return true; /* a catastrophe: its flows are about to end */
    }
    if (!adapter && rnic_fn(card, header->to_fn)->deaf_until > now_of(card)) {
        stall(card, flow);
        return false;
    }
    if (!take_frame(card, flow, header, payload)) {
        stall(card, flow);
        return false;
    }
    if (!adapter && header->type == EFE_DATA) {
        rnic_count(card, header->to_fn, RNIC_COUNT_RX_FRAMES, 1);
        rnic_count(card, header->to_fn, RNIC_COUNT_RX_BYTES, header->payload_bytes);
    }
    return true;
}

static void on_acknowledged(void *context, uint32_t flow, uint64_t tag)
{
    struct rnic_card *card = context;
    if (tag != 0) {
        rnic_requester_frame_acked(card, rnic_flow(card, flow)->fn, tag);
    }
}

static void on_room(void *context, uint32_t flow)
{
    struct rnic_card *card = context;
    rnic_flow(card, flow)->refuses = false;
    rnic_schedule_unblock(card, flow);
    rnic_state(card)->kick = true;
}

/* Its queue pairs have lost their peers: they are told of it in their turn. */
static void on_dead(void *context, uint32_t number, enum efe_death why)
{
    struct rnic_card *card = context;
    struct rnic_flow *flow = rnic_flow(card, number);
    struct efe efe = rnic_flow_efe(card);
    struct efe_ends ends;
    uint32_t qp;
    (void)why;
    efe_ends_of(&efe, number, &ends);
    if (ends.local_fn == RNIC_FUNCTION_ADAPTER) {
        rnic_message_peer_lost(card, ends.remote_mac, ends.remote_fn);
    }
    while (rnic_list_pop(card, &flow->users, RNIC_LIST_FLOW, &qp)) {
        rnic_list_remove(card, &flow->run, RNIC_LIST_RUN, qp);
        rnic_qp(card, qp)->flow = 0;
        rnic_list_append(card, &rnic_state(card)->lost, RNIC_LIST_RUN, qp);
    }
    flow->blocked = false;
    flow->refuses = false;
    rnic_state(card)->kick = true;
}

static const struct efe_host efe_callbacks = {.transmit = on_transmit,
                                              .deliver = on_deliver,
                                              .acknowledged = on_acknowledged,
                                              .room = on_room,
                                              .dead = on_dead};
static const struct rnic_switch_host switch_callbacks = {.transmit = on_leave, .arrive = on_arrive};

/* --- functions and time --- */

void rnic_wire_enable(struct rnic_card *card, unsigned fn)
{
    struct efe efe = rnic_flow_efe(card);
    efe_function_enable(&efe, (uint16_t)fn);
}

void rnic_wire_reset(struct rnic_card *card, unsigned fn)
{
    struct efe efe = rnic_flow_efe(card);
    efe_function_reset(&efe, now_of(card), (uint16_t)fn);
    rnic_schedule_forget(card, fn);
}

uint32_t rnic_wire_advance(struct rnic_card *card, uint32_t most)
{
    struct efe efe = rnic_flow_efe(card);
    struct rnic_switch wire = switch_of(card);
    efe_advance(&efe, now_of(card));
    rnic_switch_advance(&wire, now_of(card), 0);
    uint32_t done = 0;
    if (rnic_cost_is_free(card, RNIC_ENGINE_RECEIVE)) {
        rnic_cost_begin(card, RNIC_ENGINE_RECEIVE);
        done = rnic_switch_advance(&wire, now_of(card), most);
        rnic_cost_end(card);
        if (done > 0) {
            rnic_raw_unblock(card);
        }
    }
    efe_unblock(&efe, now_of(card));
    rnic_wire_count(card);
    return done;
}

void rnic_wire_retry(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    struct efe efe = rnic_flow_efe(card);
    uint32_t number = state->stalled;
    state->stalled = 0;
    while (number != 0) {
        struct rnic_flow *flow = rnic_flow(card, number - 1);
        uint32_t behind = flow->behind_stalled;
        flow->stalled = false;
        efe_resume(&efe, now_of(card), number - 1);
        number = behind;
    }
}

uint64_t rnic_wire_deadline(const struct rnic_card *card)
{
    struct efe efe = rnic_flow_efe(card);
    struct rnic_switch wire = switch_of(card);
    uint64_t flows = efe_deadline(&efe);
    uint64_t frames = rnic_switch_deadline(&wire, rnic_cost_is_free(card, RNIC_ENGINE_RECEIVE));
    return flows < frames ? flows : frames;
}
