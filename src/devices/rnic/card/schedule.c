/* SPDX-License-Identifier: MIT */
/*
 * The lists of what has something to send. A flow that EFE has no room for leaves its function's
 * list until there is room, and its queue pairs stay with it, in their order: what waits for a slow
 * peer costs nobody a turn.
 */
#include "devices/rnic/card/schedule.h"

#include "devices/rnic/card/list.h"

/* --- the lists of functions and flows --- */

void rnic_schedule_fn(struct rnic_card *card, unsigned fn)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_fn *f = rnic_fn(card, fn);
    if (f->runnable) {
        return;
    }
    f->runnable = true;
    f->behind = 0;
    if (state->last_fn != 0) {
        rnic_fn(card, state->last_fn - 1u)->behind = (uint16_t)(fn + 1);
    } else {
        state->first_fn = (uint16_t)(fn + 1);
    }
    state->last_fn = (uint16_t)(fn + 1);
}

unsigned rnic_schedule_pop_fn(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    unsigned fn = state->first_fn - 1u;
    struct rnic_fn *f = rnic_fn(card, fn);
    f->runnable = false;
    state->first_fn = f->behind;
    state->last_fn = f->behind == 0 ? 0 : state->last_fn;
    return fn;
}

/* A flow with something to send joins its function's list. */
void rnic_schedule_flow(struct rnic_card *card, uint32_t number)
{
    struct rnic_flow *flow = rnic_flow(card, number);
    struct rnic_fn *f = rnic_fn(card, flow->fn);
    if (flow->queued || flow->blocked || flow->run.first == 0) {
        return;
    }
    flow->queued = true;
    flow->behind = 0;
    if (f->last_flow != 0) {
        rnic_flow(card, f->last_flow - 1)->behind = number + 1;
    } else {
        f->first_flow = number + 1;
    }
    f->last_flow = number + 1;
    rnic_schedule_fn(card, flow->fn);
}

uint32_t rnic_schedule_pop_flow(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    uint32_t number = f->first_flow - 1;
    struct rnic_flow *flow = rnic_flow(card, number);
    flow->queued = false;
    f->first_flow = flow->behind;
    f->last_flow = flow->behind == 0 ? 0 : f->last_flow;
    return number;
}

void rnic_schedule(struct rnic_card *card, uint32_t qp)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    if (row->flow != 0) {
        rnic_list_append(card, &rnic_flow(card, row->flow - 1)->run, RNIC_LIST_RUN, qp);
        rnic_schedule_flow(card, row->flow - 1);
    } else if (row->raw != 0) {
        rnic_state(card)->raw_ready |= 1u << (row->raw - 1u);
    }
}

void rnic_schedule_unblock(struct rnic_card *card, uint32_t flow)
{
    rnic_flow(card, flow)->blocked = false;
    rnic_schedule_flow(card, flow);
}

void rnic_schedule_forget(struct rnic_card *card, unsigned fn)
{
    while (rnic_fn(card, fn)->first_flow != 0) {
        /* its number may belong to another function by now */
        rnic_schedule_flow(card, rnic_schedule_pop_flow(card, fn));
    }
}

void rnic_schedule_revive(struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (rnic_fn(card, fn)->first_flow != 0) {
            rnic_schedule_fn(card, fn);
        }
    }
}
