/* SPDX-License-Identifier: MIT */
/*
 * A reset can be lost like any frame, and a peer that only receives would not find out. So an ended
 * flow stays in its place for a while, found by no frame, and its reset is repeated; such places
 * are the first to be used for new flows.
 *
 * What was acknowledged is delivered, whatever becomes of its sender, who was told that it arrived.
 * So a flow that loses its peer while the layer above refuses its frames is left over: it ends when
 * the layer above has taken what it keeps. Without users above there is nobody who waits for that.
 */
#include "devices/rnic/efe/flow.h"

#include "devices/rnic/efe/credit.h"
#include "devices/rnic/efe/inflight.h"
#include "devices/rnic/efe/path.h"
#include "devices/rnic/efe/send.h"
#include "devices/rnic/efe/table.h"

enum { FRAMES_BEFORE_HEARD = 16, RESETS = 6 };
#define REPEAT_TIME (2 * EFE_MS)

static void flow_init(struct efe_flow *flow, uint64_t now)
{
    flow->first = flow->unsent = flow->end = flow->epoch;
    flow->edge = flow->epoch + FRAMES_BEFORE_HEARD;
    flow->reserved = flow->inflight_first = flow->inflight_last = EFE_NONE;
    flow->ack_at = flow->tail_at = flow->timeout_at = flow->probe_at = EFE_NEVER;
    flow->valid_at = now;
    for (uint32_t i = 0; i < EFE_WINDOW_MAX; i++) {
        flow->outgoing[i] = flow->incoming[i] = EFE_NONE;
    }
}

/* The flow that has been idle for longest, or an ended one, is free. */
static void life_reclaim(struct efe *efe, uint64_t now)
{
    struct efe_state *s = efe_state(efe);
    if (s->idle_first == EFE_NONE) {
        return;
    }
    struct efe_flow *flow = efe_flow(s, s->idle_first);
    if (flow->state == EFE_FLOW_OPEN) {
        efe_send_reset(efe, now, flow);
        /* it may have a turn for a frame that has arrived in the meantime */
        efe_send_forget(s, flow);
        efe_table_remove(s, flow);
        s->counters.reclaimed++;
    }
    efe_table_set_idle(s, flow, false);
    efe_timer_set(s, efe_index(s, flow), EFE_NEVER);
    efe_table_free(s, flow);
}

struct efe_flow *efe_life_begin(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn)
{
    struct efe_state *s = efe_state(efe);
    if (s->flow_free == EFE_NONE) {
        life_reclaim(efe, now);
    }
    struct efe_flow *flow = efe_table_make(s, local_fn, remote_mac, remote_fn);
    if (flow == NULL) {
        s->counters.no_flow++;
        return NULL;
    }
    flow_init(flow, now);
    efe_send_refresh(s, flow);
    return flow;
}

/* --- The end --- */

/* The buffers of what was to be sent are free. */
static void life_empty_outgoing(struct efe_state *s, struct efe_flow *flow)
{
    for (; flow->first != flow->end; flow->first++) {
        uint32_t slot = *efe_outgoing(flow, flow->first);
        efe_inflight_forget(s, flow, slot);
        efe_credit_release(s, slot);
    }
    if (flow->reserved != EFE_NONE) {
        efe_credit_release(s, flow->reserved);
        flow->reserved = EFE_NONE;
    }
}

/* The buffers of what was received are free, from this number on. */
static void life_empty_incoming(struct efe_state *s, struct efe_flow *flow, uint32_t from)
{
    for (uint32_t number = from; number - flow->undelivered < EFE_WINDOW_MAX; number++) {
        uint32_t *slot = efe_incoming(flow, number);
        if (*slot != EFE_NONE) {
            efe_credit_release(s, *slot);
            *slot = EFE_NONE;
            flow->kept--;
        }
    }
}

/* No frame finds the flow any more, it has nothing to send, and it keeps nothing but what it has
 * acknowledged. */
static void life_cut(struct efe_state *s, uint64_t now, struct efe_flow *flow)
{
    life_empty_outgoing(s, flow);
    life_empty_incoming(s, flow, flow->expected);
    efe_send_forget(s, flow);
    efe_credit_forget(s, flow);
    efe_send_again(s, now, flow); /* others of its path may have waited for what it had in flight */
    efe_table_remove(s, flow);
    flow->state = EFE_FLOW_ENDED;
    flow->backoff = 0;
    flow->ack_at = flow->tail_at = flow->timeout_at = EFE_NEVER;
    efe_timer_set(s, efe_index(s, flow), EFE_NEVER);
}

void efe_life_finish(struct efe *efe, struct efe_flow *flow, enum efe_death why)
{
    struct efe_state *s = efe_state(efe);
    life_empty_incoming(s, flow, flow->undelivered);
    flow->state = EFE_FLOW_ENDED;
    flow->users = 0;
    efe->host->dead(efe->context, efe_index(s, flow), why);
    if (efe_timer_due(s, efe_index(s, flow)) == EFE_NEVER) {
        efe_table_free(s, flow);
    } else {
        efe_table_set_useless(s, flow);
    }
}

void efe_life_end(struct efe *efe, uint64_t now, struct efe_flow *flow, enum efe_death why)
{
    life_cut(efe_state(efe), now, flow);
    if (why != EFE_DEAD_RESET) {
        efe_life_repeat(efe, now, flow);
    }
    if (why != EFE_DEAD_LOCAL && flow->users > 0 && flow->kept > 0) {
        flow->state = EFE_FLOW_LEFT;
        flow->death = (uint8_t)why;
    } else {
        efe_life_finish(efe, flow, why);
    }
}

void efe_life_repeat(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    efe_send_reset(efe, now, flow);
    if (++flow->backoff < RESETS) {
        efe_timer_set(s, efe_index(s, flow), now + (REPEAT_TIME << flow->backoff));
        return;
    }
    efe_timer_set(s, efe_index(s, flow), EFE_NEVER);
    if (flow->state == EFE_FLOW_ENDED) {
        efe_table_set_idle(s, flow, false);
        efe_table_free(s, flow);
    }
}
