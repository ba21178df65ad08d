/* SPDX-License-Identifier: MIT */
/* Turns: a frame for each queue pair, one after the other. */
#include "devices/rnic/card/steps.h"

#include "devices/rnic/card/aotf.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/list.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/reads.h"
#include "devices/rnic/card/requester.h"

/* What a queue pair sends of. */
static enum rnic_turn (*const sources[])(struct rnic_card *card, uint32_t qp) = {
    rnic_requester_turn, rnic_reads_turn, rnic_aotf_turn};
enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

/* Requests, answers and stores have a frame each, in turn, while they have something to send. */
static enum rnic_turn take_turn(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->ack_due) {
        return rnic_requester_acknowledge(card, qp);
    }
    if (row->terminate != 0) {
        return rnic_requester_terminate(card, qp);
    }
    enum rnic_turn turn = RNIC_TURN_IDLE;
    for (unsigned i = 0; i < SOURCES && turn == RNIC_TURN_IDLE; i++) {
        row->turn = (uint8_t)((row->turn + 1) % SOURCES);
        turn = sources[row->turn](card, qp);
    }
    return turn;
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
        rnic_qp_check_closing(card, qp);
    }
    rnic_schedule_flow(card, number);
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

static uint32_t run_functions(struct rnic_card *card, uint32_t most)
{
    const struct rnic_state *state = rnic_state(card);
    uint32_t done = 0;
    while (done < most && state->first_fn != 0) {
        unsigned fn = rnic_schedule_pop_fn(card);
        const struct rnic_fn *f = rnic_fn(card, fn);
        if (!rnic_works(card, fn) || f->deaf_until > state->now || f->first_flow == 0) {
            continue;
        }
        run_flow(card, rnic_schedule_pop_flow(card, fn));
        done++;
        if (f->first_flow != 0) {
            rnic_schedule_fn(card, fn);
        }
    }
    return done;
}

/* Where raw queue pairs have something to send, they and the flows begin by turns. */
uint32_t rnic_round_robin_run(struct rnic_card *card, uint32_t most)
{
    struct rnic_state *state = rnic_state(card);
    uint32_t done = run_lost(card, most);
    state->raw_first = state->raw_ready != 0 && !state->raw_first;
    done += state->raw_first ? rnic_raw_run(card, most - done) : 0;
    done += run_functions(card, most - done);
    return done + rnic_raw_run(card, most - done);
}
