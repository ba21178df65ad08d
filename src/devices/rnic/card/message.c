/* SPDX-License-Identifier: MIT */
/*
 * Control messages. The card interprets only requests and their withdrawals, which name a
 * discriminator instead of a function, and answers requests that no function takes. Other messages
 * are only delivered.
 */
#include "devices/rnic/card/message.h"

#include <string.h>

#include "devices/rnic/card/claim.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/listen.h"
#include "devices/rnic/card/numbers.h"
#include "iwarp/bytes.h"

enum { HEADER = 16, MESSAGE_MAX = HEADER + RNIC_CONTROL_PAYLOAD };
/* For room in a flow: all commands are answered within a second. */
static const uint64_t patience_ns = 100000000;

/* --- sending --- */

/* A message to an adapter names a discriminator. */
static bool names_listener(const uint8_t *message, uint32_t length)
{
    uint16_t text = vipl_get16(message + RNIC_CTL_DISCRIMINATOR_LENGTH);
    uint8_t kind = message[RNIC_CTL_KIND];
    return (kind == RNIC_CONTROL_REQUEST || kind == RNIC_CONTROL_CANCEL) && text <= RNIC_MAX_DISCRIMINATOR &&
           text <= length - HEADER;
}

/* There is no room in the flow: the command waits, but not for ever, and only once for a peer that
 * takes nothing. */
static uint16_t wait_for_room(struct rnic_card *card, unsigned fn, uint32_t number)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    struct rnic_flow *flow = rnic_flow(card, number);
    uint64_t now = rnic_state(card)->now;
    if (f->control_until == 0) {
        f->control_until = now + patience_ns;
    }
    if (!flow->refuses && now < f->control_until) {
        rnic_command_until(card, f->control_until);
        return RNIC_COMMAND_WAITS;
    }
    flow->refuses = true;
    f->control_until = 0;
    return RNIC_STATUS_BUSY;
}

static void commit_message(struct rnic_card *card, unsigned fn, uint32_t flow, uint32_t bytes)
{
    struct efe_send send = {.type = EFE_CONTROL, .flags = EFE_FIRST | EFE_LAST, .left = bytes};
    rnic_flow_commit(card, fn, flow, &send, bytes, 0);
}

uint16_t rnic_message_send(struct rnic_card *card, struct rnic_command *command)
{
    uint8_t message[MESSAGE_MAX];
    uint16_t length = rnic_command16(command, RNIC_CMD_CONTROL_LENGTH);
    uint16_t to = rnic_command16(command, RNIC_CMD_CONTROL_PEER_FUNCTION);
    if (length < HEADER || length > MESSAGE_MAX ||
        (to >= RNIC_CARD_MAX_FUNCTIONS && to != RNIC_FUNCTION_ADAPTER)) {
        return RNIC_STATUS_INVALID;
    }
    if (!rnic_dma_read(card, command->fn, command->object, rnic_command64(command, RNIC_CMD_CONTROL_ADDRESS),
                       message, length)) {
        return RNIC_STATUS_DMA;
    }
    if (to == RNIC_FUNCTION_ADAPTER && !names_listener(message, length)) {
        return RNIC_STATUS_INVALID;
    }
    uint32_t flow = rnic_flow_open(card, command->fn, command->bytes + RNIC_CMD_CONTROL_PEER_MAC, to);
    if (flow == EFE_NO_FLOW) {
        return RNIC_STATUS_NO_ROOM;
    }
    uint8_t *payload = rnic_flow_reserve(card, flow);
    if (payload == NULL) {
        return wait_for_room(card, command->fn, flow);
    }
    rnic_fn(card, command->fn)->control_until = 0;
    memcpy(payload, message, length);
    commit_message(card, command->fn, flow, length);
    return RNIC_STATUS_OK;
}

/* --- receiving --- */

static bool hand_over(struct rnic_card *card, unsigned fn, uint32_t object, const struct efe_header *header,
                      const uint8_t *payload)
{
    struct rnic_message message = {.bytes = payload,
                                   .length = header->payload_bytes,
                                   .from_mac = header->from_mac,
                                   .from_fn = header->from_fn,
                                   .object = object};
    return rnic_event_control(card, fn, &message);
}

/* Tells the requester why its request was not delivered. Returns false if there is no room for the
 * answer. */
static bool answer_refused(struct rnic_card *card, uint32_t flow, const uint8_t *request, uint8_t reason)
{
    uint8_t *payload = rnic_flow_reserve(card, flow);
    if (payload == NULL) {
        return false;
    }
    memset(payload, 0, HEADER);
    payload[RNIC_CTL_KIND] = RNIC_CONTROL_REFUSED;
    payload[RNIC_CTL_REASON] = reason;
    memcpy(payload + RNIC_CTL_DESTINATION_QP, request + RNIC_CTL_SOURCE_QP, 4);
    memcpy(payload + RNIC_CTL_SERIAL, request + RNIC_CTL_SERIAL, 4);
    commit_message(card, RNIC_FUNCTION_ADAPTER, flow, HEADER);
    return true;
}

/* Returns true if a function has claimed the request. */
static bool is_claimed(const struct rnic_card *card, const struct efe_header *header, const uint8_t *request,
                       unsigned *fn)
{
    const struct rnic_claim_key key = {.peer_mac = header->from_mac,
                                       .peer_fn = header->from_fn,
                                       .peer_qp = vipl_get32(request + RNIC_CTL_SOURCE_QP),
                                       .serial = vipl_get32(request + RNIC_CTL_SERIAL)};
    return rnic_claim_find(card, &key, fn);
}

/* A message to this adapter: for all who listen, as far as their rings have room; a request that a
 * function has claimed, for it alone. */
static bool take_for_listener(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                              const uint8_t *payload)
{
    if (!names_listener(payload, header->payload_bytes)) {
        return true; /* no driver sends that: the card would not let it */
    }
    bool request = payload[RNIC_CTL_KIND] == RNIC_CONTROL_REQUEST;
    unsigned owner = 0;
    bool claimed = request && is_claimed(card, header, payload, &owner);
    bool found = claimed;
    bool taken = false;
    const uint8_t *text = payload + HEADER;
    uint32_t length = vipl_get16(payload + RNIC_CTL_DISCRIMINATOR_LENGTH);
    const struct rnic_listen *listen = rnic_listen_find(card, text, length, NULL);
    for (; listen != NULL; listen = rnic_listen_find(card, text, length, listen)) {
        bool works = rnic_works(card, listen->fn) && (!claimed || listen->fn == owner);
        found = found || works;
        taken = (works && hand_over(card, listen->fn, listen->object, header, payload)) || taken;
    }
    if (!found) {
        return !request || answer_refused(card, flow, payload, RNIC_REFUSED_NO_LISTENER);
    }
    return taken || claimed || (request && answer_refused(card, flow, payload, RNIC_REFUSED_BUSY));
}

bool rnic_message_take(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                       const uint8_t *payload)
{
    if (header->payload_bytes < HEADER || header->payload_bytes > MESSAGE_MAX) {
        return true;
    }
    if (header->to_fn == RNIC_FUNCTION_ADAPTER) {
        return take_for_listener(card, flow, header, payload);
    }
    return hand_over(card, header->to_fn, 0, header, payload);
}

void rnic_message_peer_lost(struct rnic_card *card, const uint8_t mac[6], uint16_t peer_fn)
{
    struct rnic_state *state = rnic_state(card);
    for (unsigned fn = 0; fn < state->config.functions; fn++) {
        uint32_t row = 0;
        if (rnic_works(card, fn) && rnic_numbers_find(card, &state->listens, fn, &row)) {
            rnic_event_peer_lost(card, fn, mac, peer_fn);
        }
    }
}
