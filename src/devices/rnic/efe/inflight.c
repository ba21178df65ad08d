/* SPDX-License-Identifier: MIT */
/*
 * Each transmission of a path has a number, its order. Frames in flight are in a list by it; a
 * frame that is sent again goes to the end. So a frame is lost if three that were sent after it
 * have arrived, no matter what their own numbers are, and a retransmission that is lost is found in
 * the same way.
 */
#include "devices/rnic/efe/inflight.h"

#include <string.h>

#include "devices/rnic/efe/path.h"

enum { WORD_BITS = 32, LATER_FRAMES = 3 };

uint32_t efe_inflight_bytes(const struct efe_slot *slot)
{
    return EFE_PAYLOAD_AT + EFE_CRC_BYTES + (uint32_t)slot->header.payload_bytes;
}

/* --- Lost frames --- */

static void lost_set(struct efe_flow *flow, uint32_t number, bool lost)
{
    uint32_t bit = number % EFE_WINDOW_MAX, mask = UINT32_C(1) << bit % WORD_BITS;
    uint32_t *word = &flow->lost[bit / WORD_BITS];
    if (lost) {
        *word |= mask;
        flow->lost_count++;
    } else {
        *word &= ~mask;
        flow->lost_count--;
    }
}

uint32_t efe_inflight_first_lost(const struct efe_flow *flow)
{
    uint32_t number = flow->first;
    while ((flow->lost[number % EFE_WINDOW_MAX / WORD_BITS] >> number % WORD_BITS & 1) == 0) {
        bool empty = number % WORD_BITS == 0 && flow->lost[number % EFE_WINDOW_MAX / WORD_BITS] == 0;
        number += empty ? WORD_BITS : 1;
    }
    return number;
}

/* --- Frames in flight --- */

static void list_append(struct efe_state *s, struct efe_flow *flow, uint32_t index)
{
    struct efe_slot *slot = efe_slot(s, index);
    slot->previous = flow->inflight_last;
    slot->next = EFE_NONE;
    *(flow->inflight_last == EFE_NONE ? &flow->inflight_first : &efe_slot(s, flow->inflight_last)->next) =
        index;
    flow->inflight_last = index;
}

static void list_remove(struct efe_state *s, struct efe_flow *flow, uint32_t index)
{
    const struct efe_slot *slot = efe_slot(s, index);
    *(slot->previous == EFE_NONE ? &flow->inflight_first : &efe_slot(s, slot->previous)->next) = slot->next;
    *(slot->next == EFE_NONE ? &flow->inflight_last : &efe_slot(s, slot->next)->previous) = slot->previous;
}

void efe_inflight_forget(struct efe_state *s, struct efe_flow *flow, uint32_t index)
{
    const struct efe_slot *slot = efe_slot(s, index);
    if (slot->state == EFE_SLOT_INFLIGHT) {
        list_remove(s, flow, index);
        efe_path_of(s, flow)->in_flight -= efe_inflight_bytes(slot);
    } else if (slot->state == EFE_SLOT_LOST) {
        lost_set(flow, slot->header.sequence, false);
    }
}

void efe_inflight_sent(struct efe_state *s, struct efe_flow *flow, uint32_t index, uint64_t now)
{
    struct efe_slot *slot = efe_slot(s, index);
    struct efe_path *path = efe_path_of(s, flow);
    efe_inflight_forget(s, flow, index);
    slot->resent = slot->state != EFE_SLOT_QUEUED;
    slot->state = EFE_SLOT_INFLIGHT;
    slot->order = path->order++;
    slot->sent_at = now;
    path->in_flight += efe_inflight_bytes(slot);
    list_append(s, flow, index);
}

/* Enters the order among the three greatest that arrived, if it is one of them. */
static void arrived_note(struct efe_flow *flow, uint64_t order)
{
    for (unsigned i = 0; i < LATER_FRAMES; i++) {
        if (order > flow->arrived[i]) {
            uint64_t lesser = flow->arrived[i];
            flow->arrived[i] = order;
            order = lesser;
        }
    }
}

bool efe_inflight_acked(struct efe_state *s, struct efe_flow *flow, uint32_t index, uint64_t now)
{
    struct efe_slot *slot = efe_slot(s, index);
    if (slot->state != EFE_SLOT_INFLIGHT && slot->state != EFE_SLOT_LOST) {
        return false;
    }
    struct efe_path *path = efe_path_of(s, flow);
    efe_inflight_forget(s, flow, index);
    slot->state = EFE_SLOT_ARRIVED;
    /* An answer that came sooner than any can is to an earlier transmission of the frame, of whose
     * order nothing is known. */
    if (!slot->resent || now - slot->sent_at >= efe_path_base(path)) {
        arrived_note(flow, slot->order);
        efe_path_arrived(s, path, slot->order);
    }
    return true;
}

static void inflight_lose(struct efe_state *s, struct efe_flow *flow, uint32_t index)
{
    efe_inflight_forget(s, flow, index);
    efe_slot(s, index)->state = EFE_SLOT_LOST;
    lost_set(flow, efe_slot(s, index)->header.sequence, true);
    efe_path_lost(efe_path_of(s, flow));
}

void efe_inflight_find_lost(struct efe_state *s, struct efe_flow *flow)
{
    uint64_t before = flow->arrived[LATER_FRAMES - 1];
    while (flow->inflight_first != EFE_NONE && efe_slot(s, flow->inflight_first)->order < before) {
        inflight_lose(s, flow, flow->inflight_first);
    }
}

void efe_inflight_lose_all(struct efe_state *s, struct efe_flow *flow)
{
    while (flow->inflight_first != EFE_NONE) {
        inflight_lose(s, flow, flow->inflight_first);
    }
}
