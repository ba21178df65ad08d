/* SPDX-License-Identifier: MIT */
/* The protocol of a stream: who may send what, and what a peer may have sent. */
#include "stream/state.h"

#include <assert.h>

enum { TYPE_SHIFT = 24, CREDITS_MASK = 0xFFFFFF };

bool vipl_stream_window_is_valid(struct vipl_stream_window window)
{
    return window.messages >= VIPL_STREAM_MIN_MESSAGES && window.messages <= VIPL_STREAM_MAX_MESSAGES &&
           window.bytes >= VIPL_STREAM_MIN_BYTES && window.bytes <= VIPL_STREAM_MAX_BYTES;
}

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    }
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | from[i];
    }
    return value;
}

void vipl_stream_offer_encode(struct vipl_stream_offer offer, uint8_t bytes[VIPL_STREAM_OFFER_BYTES])
{
    put(bytes, offer.address, 8);
    put(bytes + 8, offer.length, 8);
    put(bytes + 16, offer.handle, 4);
    put(bytes + 20, 0, 4);
}

bool vipl_stream_offer_decode(const uint8_t bytes[VIPL_STREAM_OFFER_BYTES], struct vipl_stream_offer *offer)
{
    offer->address = get(bytes, 8);
    offer->length = get(bytes + 8, 8);
    offer->handle = (uint32_t)get(bytes + 16, 4);
    return offer->length > 0 && offer->length <= VIPL_STREAM_MAX_OFFER && get(bytes + 20, 4) == 0;
}

void vipl_stream_state_begin(struct vipl_stream_state *state, struct vipl_stream_window own,
                             struct vipl_stream_window peer)
{
    state->own = own;
    state->peer = peer;
    state->credits = peer.messages;
}

/* The credits that a message of the type leaves for messages that may not wait behind it. */
static uint32_t reserve(enum vipl_stream_message type)
{
    return type == VIPL_STREAM_DATA ? 2 : type == VIPL_STREAM_RTS ? 1 : 0;
}

bool vipl_stream_may_send(const struct vipl_stream_state *state, enum vipl_stream_message type)
{
    if (state->credits <= reserve(type)) {
        return false;
    }
    switch (type) {
    case VIPL_STREAM_DATA:
        return !state->fin_sent && !state->offering && !state->close_received;
    case VIPL_STREAM_RTS:
    case VIPL_STREAM_FIN:
        return !state->fin_sent && !state->offering && !state->close_received && !state->holding;
    case VIPL_STREAM_CLOSE:
        return !state->close_sent && !state->offering && !state->holding;
    case VIPL_STREAM_ACK:
        return state->acks_due > 0;
    case VIPL_STREAM_DONE:
        return state->offered;
    case VIPL_STREAM_CREDIT:
        return state->owed > 0;
    }
    return false;
}

uint32_t vipl_stream_on_send(struct vipl_stream_state *state, enum vipl_stream_message type)
{
    assert(vipl_stream_may_send(state, type));
    uint32_t immediate = (uint32_t)type << TYPE_SHIFT | state->owed;
    state->credits--;
    state->owed = 0;
    state->close_sent = state->close_sent || type == VIPL_STREAM_CLOSE;
    state->fin_sent = state->fin_sent || state->close_sent || type == VIPL_STREAM_FIN;
    state->unacknowledged += type == VIPL_STREAM_FIN || type == VIPL_STREAM_CLOSE ? 1 : 0;
    state->acks_due -= type == VIPL_STREAM_ACK ? 1 : 0;
    state->offering = state->offering || type == VIPL_STREAM_RTS;
    state->offered = state->offered && type != VIPL_STREAM_DONE;
    state->has_read = state->has_read && state->offered;
    return immediate;
}

/* Returns true if a correct peer may have sent such a message in this state. */
static bool is_allowed(const struct vipl_stream_state *state, uint32_t type, uint32_t bytes)
{
    bool may_add = !state->fin_received && !state->offered; /* to the stream */
    switch (type) {
    case VIPL_STREAM_DATA:
        return may_add && bytes > 0 && bytes <= state->own.bytes;
    case VIPL_STREAM_RTS:
        return may_add && !state->refuses_offers && bytes == VIPL_STREAM_OFFER_BYTES;
    case VIPL_STREAM_FIN:
        return may_add && bytes == 0;
    case VIPL_STREAM_CLOSE:
        return !state->close_received && !state->offered && bytes == 0;
    case VIPL_STREAM_ACK:
        return state->unacknowledged > 0 && bytes == 0;
    case VIPL_STREAM_DONE:
        return state->offering && bytes == 0;
    case VIPL_STREAM_CREDIT:
        return bytes == 0;
    default:
        return false;
    }
}

enum vipl_stream_message vipl_stream_on_message(struct vipl_stream_state *state, uint32_t immediate,
                                                uint32_t bytes)
{
    uint32_t type = immediate >> TYPE_SHIFT;
    uint32_t credits = immediate & CREDITS_MASK;
    if (!is_allowed(state, type, bytes) || credits > state->peer.messages - state->credits ||
        (type == VIPL_STREAM_CREDIT && credits == 0)) {
        return (enum vipl_stream_message)0;
    }
    state->credits += credits;
    state->close_received = state->close_received || type == VIPL_STREAM_CLOSE;
    state->fin_received = state->fin_received || state->close_received || type == VIPL_STREAM_FIN;
    state->acks_due += type == VIPL_STREAM_FIN || type == VIPL_STREAM_CLOSE ? 1 : 0;
    state->unacknowledged -= type == VIPL_STREAM_ACK ? 1 : 0;
    state->offered = state->offered || type == VIPL_STREAM_RTS;
    state->offering = state->offering && type != VIPL_STREAM_DONE;
    return (enum vipl_stream_message)type;
}

void vipl_stream_on_repost(struct vipl_stream_state *state)
{
    assert(state->owed < state->own.messages);
    state->owed++;
}

enum vipl_stream_message vipl_stream_due(const struct vipl_stream_state *state)
{
    const struct {
        enum vipl_stream_message type;
        bool due;
    } messages[] = {{VIPL_STREAM_ACK, true},
                    {VIPL_STREAM_DONE, state->has_read},
                    {VIPL_STREAM_CLOSE, state->closing},
                    {VIPL_STREAM_FIN, state->finishing && !state->closing},
                    {VIPL_STREAM_CREDIT, state->owed >= state->own.messages / 2}};
    for (unsigned i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        if (messages[i].due && vipl_stream_may_send(state, messages[i].type)) {
            return messages[i].type;
        }
    }
    return (enum vipl_stream_message)0;
}
