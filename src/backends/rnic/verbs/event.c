/* SPDX-License-Identifier: MIT */
/* The event ring: what the card tells without being asked. An event is copied once, and its place
 * given back at once. */

#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "rnic/entry.h"

int vipl_rnic_events_open(struct vipl_rnic *rnic)
{
    return vipl_rnic_block_get(&rnic->slabs, (size_t)RNIC_EVENT_BYTES << RNIC_EVENTS_LOG2, true,
                               &rnic->events.ring);
}

static const uint8_t *event_at(const struct vipl_rnic *rnic, uint32_t index)
{
    return rnic->events.ring.base + (index & ((1u << RNIC_EVENTS_LOG2) - 1)) * (size_t)RNIC_EVENT_BYTES;
}

bool vipl_rnic_has_event(struct vipl_rnic *rnic)
{
    uint32_t next = vipl_load_relaxed(&rnic->events.consumer);
    return rnic_owner(event_at(rnic, next) + RNIC_EVT_OWNER) == next + 1;
}

static void read_event(const uint8_t *entry, bool big, struct vipl_rnic_event *out)
{
    out->kind = rnic_get16(entry + RNIC_EVT_KIND, big);
    out->code = rnic_get16(entry + RNIC_EVT_CODE, big);
    out->object = rnic_get32(entry + RNIC_EVT_OBJECT, big);
    memcpy(out->mac, entry + RNIC_EVT_PEER_MAC, sizeof(out->mac));
    out->function = rnic_get16(entry + RNIC_EVT_PEER_FUNCTION, big);
    out->missed = rnic_get32(entry + RNIC_EVT_MISSED, big);
    out->length = rnic_get32(entry + RNIC_EVT_LENGTH, big);
    memcpy(out->message, entry + RNIC_EVT_MESSAGE, sizeof(out->message));
    if (out->length > sizeof(out->message)) {
        out->length = 0; /* no message is as long */
    }
}

bool vipl_rnic_next_event(struct vipl_rnic *rnic, struct vipl_rnic_event *out)
{
    uint32_t next = vipl_load_relaxed(&rnic->events.consumer);
    if (!vipl_rnic_has_event(rnic)) {
        return false;
    }
    read_event(event_at(rnic, next), rnic->big, out);
    vipl_store_relaxed(&rnic->events.consumer, next + 1);
    vipl_rnic_ring(rnic, RNIC_DB_EVENT_CONSUMER, next + 1, 0);
    return true;
}
