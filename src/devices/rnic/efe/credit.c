/* SPDX-License-Identifier: MIT */
/*
 * A flow may have as many buffers as are free: alone it gets half of its kind's, with others an
 * equal share. The last quarter is for flows whose peers take frames, so that those that have
 * stopped leave something to the others. Flows that wait for a buffer are in a list and are told in
 * turn; while there are any, no other flow gets one.
 */
#include "devices/rnic/efe/credit.h"

enum { CREDIT_SHARE = 4, LAST_SHARE = 4 };

static uint32_t room_half(const struct efe_state *s)
{
    return s->config.frames / 2;
}

uint32_t efe_credit_available(const struct efe_state *s)
{
    uint32_t credit = s->config.frames / CREDIT_SHARE;
    return credit < EFE_WINDOW_MAX ? credit : EFE_WINDOW_MAX;
}

static bool room_is_open(const struct efe_flow *flow)
{
    return efe_ahead(flow->end, flow->edge) > 0;
}

static bool room_in_pool(const struct efe_state *s, const struct efe_flow *flow)
{
    uint32_t free = room_half(s) - s->sending, last = room_is_open(flow) ? 0 : room_half(s) / LAST_SHARE;
    return free > last && efe_outstanding(flow) < free;
}

/* What cannot be sent now is of no use in a buffer, except one frame, for which the window is
 * asked. */
static bool room_in_window(const struct efe_flow *flow)
{
    uint32_t outstanding = efe_outstanding(flow);
    return outstanding == 0 || (outstanding < EFE_WINDOW_MAX && room_is_open(flow));
}

/* --- Flows that wait --- */

static void pool_append(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t index = efe_index(s, flow);
    flow->wants_pool = true;
    flow->pool_next = EFE_NONE;
    *(s->pool_first == EFE_NONE ? &s->pool_first : &efe_flow(s, s->pool_last)->pool_next) = index;
    s->pool_last = index;
    s->pool_count++;
}

static void pool_remove(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t previous = EFE_NONE, *link = &s->pool_first, index = efe_index(s, flow);
    while (*link != index) {
        previous = *link;
        link = &efe_flow(s, previous)->pool_next;
    }
    *link = flow->pool_next;
    if (s->pool_last == index) {
        s->pool_last = previous;
    }
    flow->wants_pool = false;
    s->pool_count--;
}

void efe_credit_forget(struct efe_state *s, struct efe_flow *flow)
{
    if (flow->wants_pool) {
        pool_remove(s, flow);
    }
    flow->wants_room = false;
}

void efe_credit_queue(struct efe_state *s, struct efe_flow *flow)
{
    if (flow->wants_room && !flow->wants_pool && room_in_window(flow)) {
        pool_append(s, flow);
    }
}

void efe_credit_notify(struct efe *efe)
{
    struct efe_state *s = efe_state(efe);
    s->pool_freed = false;
    for (uint32_t count = s->pool_count; count > 0 && s->pool_count > 0 && s->sending < room_half(s);
         count--) {
        struct efe_flow *flow = efe_flow(s, s->pool_first);
        pool_remove(s, flow);
        if (!room_in_window(flow)) {
            continue; /* it comes back when its window opens */
        }
        if (!room_in_pool(s, flow)) {
            pool_append(s, flow);
            continue;
        }
        flow->wants_room = false;
        flow->told = true;
        efe->host->room(efe->context, efe_index(s, flow));
    }
}

/* --- Slots --- */

static uint32_t room_take(struct efe_state *s, enum efe_slot_state state)
{
    uint32_t slot = rnic_frames_take(efe_frames(s));
    if (slot != EFE_NONE) {
        *efe_slot(s, slot) =
            (struct efe_slot){.previous = EFE_NONE, .next = EFE_NONE, .state = (uint8_t)state};
        *(state == EFE_SLOT_KEPT ? &s->receiving : &s->sending) += 1;
    }
    return slot;
}

uint32_t efe_credit_reserve(struct efe_state *s, struct efe_flow *flow)
{
    bool in_turn = flow->told || s->pool_count == 0;
    bool room = flow->reserved == EFE_NONE && room_in_window(flow) && room_in_pool(s, flow);
    if (room && in_turn) {
        flow->reserved = room_take(s, EFE_SLOT_RESERVED);
    }
    /* those before it in the list may have none: its turn is to come at once */
    s->pool_freed |= room && !in_turn;
    if (flow->reserved != EFE_NONE) {
        efe_credit_forget(s, flow);
        return flow->reserved;
    }
    flow->told = false;
    flow->wants_room = true;
    efe_credit_queue(s, flow);
    return EFE_NONE;
}

uint32_t efe_credit_keep(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t free = s->config.frames - room_half(s) - s->receiving;
    return flow->kept < free ? room_take(s, EFE_SLOT_KEPT) : EFE_NONE;
}

void efe_credit_release(struct efe_state *s, uint32_t slot)
{
    bool kept = efe_slot(s, slot)->state == EFE_SLOT_KEPT;
    *(kept ? &s->receiving : &s->sending) -= 1;
    s->pool_freed |= !kept;
    rnic_frames_give(efe_frames(s), slot);
}
