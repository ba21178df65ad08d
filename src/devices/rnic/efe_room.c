/* SPDX-License-Identifier: MIT */
/*
 * A flow may have as many buffers as are free: alone it gets half of its kind's, with others an equal share, and a few at any rate.
 * A flow waits by itself for its window; those that wait for a buffer are in a list.
 */
#include "devices/rnic/efe_room.h"

enum {
    FLOW_LEAST = 4, /* frames of a flow, however few buffers are free, or however small its window is */
    CREDIT_SHARE = 4
};

static uint32_t room_half(const struct efe_state *s)
{
    return s->config.frames / 2;
}

uint32_t efe_room_credit(const struct efe_state *s)
{
    uint32_t credit = s->config.frames / CREDIT_SHARE;
    return credit < EFE_WINDOW_MOST ? credit : EFE_WINDOW_MOST;
}

static bool room_is_fair(uint32_t free, uint32_t has)
{
    return free > 0 && (has < free || has < FLOW_LEAST);
}

static bool room_in_pool(const struct efe_state *s, const struct efe_flow *flow)
{
    return room_is_fair(room_half(s) - s->sending, efe_outstanding(flow));
}

/* What cannot be sent now is of no use in a buffer, except a little that is at hand when the window opens. */
static bool room_in_window(const struct efe_flow *flow)
{
    uint32_t outstanding = efe_outstanding(flow);
    return outstanding < FLOW_LEAST ||
           (outstanding < EFE_WINDOW_MOST && efe_ahead(flow->end, flow->edge) > 0);
}

/* --- Flows that wait ------------------------------------------------------------------------- */

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

void efe_room_forget(struct efe_state *s, struct efe_flow *flow)
{
    if (flow->wants_pool) {
        pool_remove(s, flow);
    }
    flow->wants_room = false;
}

void efe_room_tell(struct efe *efe, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    if (!flow->wants_room || !room_in_window(flow)) {
        return;
    }
    if (room_in_pool(s, flow)) {
        efe_room_forget(s, flow);
        efe->host->room(efe->context, efe_index(s, flow));
    } else if (!flow->wants_pool) {
        pool_append(s, flow);
    }
}

void efe_room_tell_all(struct efe *efe)
{
    struct efe_state *s = efe_state(efe);
    s->pool_freed = false;
    for (uint32_t count = s->pool_count; count > 0 && s->pool_count > 0 && s->sending < room_half(s);
         count--) {
        struct efe_flow *flow = efe_flow(s, s->pool_first);
        pool_remove(s, flow);
        efe_room_tell(efe, flow); /* behind the others again, if it may have none */
    }
}

/* --- Slots ----------------------------------------------------------------------------------- */

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

uint32_t efe_room_reserve(struct efe_state *s, struct efe_flow *flow)
{
    if (flow->reserved == EFE_NONE && room_in_window(flow) && room_in_pool(s, flow)) {
        flow->reserved = room_take(s, EFE_SLOT_RESERVED);
    }
    if (flow->reserved != EFE_NONE) {
        efe_room_forget(s, flow);
        return flow->reserved;
    }
    flow->wants_room = true;
    if (room_in_window(flow) && !flow->wants_pool) {
        pool_append(s, flow);
    }
    return EFE_NONE;
}

uint32_t efe_room_keep(struct efe_state *s, struct efe_flow *flow)
{
    if (!room_is_fair(s->config.frames - room_half(s) - s->receiving, flow->kept)) {
        return EFE_NONE;
    }
    return room_take(s, EFE_SLOT_KEPT);
}

void efe_room_give(struct efe_state *s, uint32_t slot)
{
    bool kept = efe_slot(s, slot)->state == EFE_SLOT_KEPT;
    *(kept ? &s->receiving : &s->sending) -= 1;
    s->pool_freed |= !kept;
    rnic_frames_give(efe_frames(s), slot);
}
