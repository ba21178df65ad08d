/* SPDX-License-Identifier: MIT */
/* What has something to send: functions, of each its flows, of each its queue pairs. */
#ifndef DEVICES_RNIC_CARD_SCHEDULE_H
#define DEVICES_RNIC_CARD_SCHEDULE_H

#include "devices/rnic/card/state.h"

/* What became of a queue pair's turn. */
enum rnic_turn {
    RNIC_TURN_IDLE,   /* there was nothing to send */
    RNIC_TURN_SENT,   /* a frame, or at least something was done; there may be more */
    RNIC_TURN_BLOCKED /* the flow has no room for a frame */
};

/* The queue pair may have something to send. */
void rnic_schedule(struct rnic_card *card, uint32_t qp);
/* The flow, or the function, joins its list if any of it has something to send and can. */
void rnic_schedule_flow(struct rnic_card *card, uint32_t number);
void rnic_schedule_fn(struct rnic_card *card, unsigned fn);
/* Takes the first function, or the first flow of a function, off its list; there is one. */
unsigned rnic_schedule_pop_fn(struct rnic_card *card);
uint32_t rnic_schedule_pop_flow(struct rnic_card *card, unsigned fn);
/* The flow has room again. */
void rnic_schedule_unblock(struct rnic_card *card, uint32_t flow);
/* The function sends nothing more: its flows are not in turn any more. */
void rnic_schedule_forget(struct rnic_card *card, unsigned fn);
/* Functions that a fault kept from sending may send again. */
void rnic_schedule_revive(struct rnic_card *card);
/* Whether anything is to be sent and can be. */
static inline bool rnic_schedule_any(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    return state->first_fn != 0 || state->lost.first != 0 || state->raw_ready != 0;
}

#endif
