/* SPDX-License-Identifier: MIT */
/*
 * Turns. A flow that EFE has no room for leaves its function's list until there is room, and its queue pairs stay with it, in their
 * order: what waits for a slow peer costs nobody a turn.
 */
#include "devices/rnic/schedule.h"

#include "devices/rnic/list.h"
#include "devices/rnic/qp.h"
#include "devices/rnic/reads.h"
#include "devices/rnic/requester.h"
#include "devices/rnic/wire.h"

/* --- the lists of functions and flows ------------------------------------------------------------------- */

static void append_fn(struct rnic_card *card, unsigned fn)
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

static unsigned pop_fn(struct rnic_card *card)
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
static void append_flow(struct rnic_card *card, uint32_t number)
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
    append_fn(card, flow->fn);
}

static uint32_t pop_flow(struct rnic_card *card, unsigned fn)
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
        append_flow(card, row->flow - 1);
    }
}

void rnic_schedule_unblock(struct rnic_card *card, uint32_t flow)
{
    rnic_flow(card, flow)->blocked = false;
    append_flow(card, flow);
}

void rnic_schedule_forget(struct rnic_card *card, unsigned fn)
{
    while (rnic_fn(card, fn)->first_flow != 0) {
        append_flow(card, pop_flow(card, fn)); /* its number may belong to another function by now */
    }
}

/* --- turns --------------------------------------------------------------------------------------------------- */

/* Of responses and requests each has every other frame while both have something to send. */
static enum rnic_turn take_turn(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    enum rnic_turn (*const both[])(struct rnic_card * card, uint32_t qp) = {rnic_requester_turn,
                                                                            rnic_reads_turn};
    if (row->ack_due) {
        return rnic_requester_acknowledge(card, qp);
    }
    if (row->terminate != 0) {
        return rnic_requester_terminate(card, qp);
    }
    row->turn ^= 1;
    enum rnic_turn turn = both[row->turn](card, qp);
    return turn == RNIC_TURN_IDLE ? both[row->turn ^ 1](card, qp) : turn;
}

/* One turn of the flow whose turn it is. */
static void run_flow(struct rnic_card *card, uint32_t number)
{
    struct rnic_flow *flow = rnic_flow(card, number);
    uint32_t qp;
    if (!flow->blocked && rnic_list_pop(card, &flow->run, RNIC_LIST_RUN, &qp)) {
        enum rnic_turn turn = take_turn(card, qp);
        if (turn == RNIC_TURN_SENT) {
            rnic_schedule(card, qp);
        } else if (turn == RNIC_TURN_BLOCKED) {
            flow->blocked = true;
            rnic_list_prepend(card, &flow->run, RNIC_LIST_RUN, qp);
        }
    }
    append_flow(card, number);
}

/* Queue pairs whose flow has died. */
static uint32_t run_lost(struct rnic_card *card, uint32_t most)
{
    uint32_t done = 0;
    uint32_t qp;
    while (done < most && rnic_list_pop(card, &rnic_state(card)->lost, RNIC_LIST_RUN, &qp)) {
        if (rnic_qp(card, qp)->state == RNIC_QP_STATE_ERROR) {
            rnic_qp_drain(card, qp);
        } else {
            rnic_qp_fail(card, qp, RNIC_ERROR_CONNECTION_LOST, NULL);
        }
        done++;
    }
    return done;
}

void rnic_schedule_revive(struct rnic_card *card)
{
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        if (rnic_fn(card, fn)->first_flow != 0) {
            append_fn(card, fn);
        }
    }
}

uint32_t rnic_schedule_run(struct rnic_card *card, uint32_t most)
{
    const struct rnic_state *state = rnic_state(card);
    uint32_t done = run_lost(card, most);
    while (done < most && state->first_fn != 0) {
        unsigned fn = pop_fn(card);
        const struct rnic_fn *f = rnic_fn(card, fn);
        if (f->deaf_until > state->now || f->first_flow == 0) {
            continue;
        }
        run_flow(card, pop_flow(card, fn));
        done++;
        if (f->first_flow != 0) {
            append_fn(card, fn);
        }
    }
    return done;
}
