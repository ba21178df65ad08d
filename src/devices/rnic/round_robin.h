/* SPDX-License-Identifier: MIT */
/* The card's sending: functions in turn, of each its flows in turn, of each its queue pairs in turn. */
#ifndef DEVICES_RNIC_ROUND_ROBIN_H
#define DEVICES_RNIC_ROUND_ROBIN_H

#include "devices/rnic/state.h"

/* Gives at most so many turns, and ends as many queue pairs whose flows have died. Returns how many it was. */
uint32_t rnic_round_robin_run(struct rnic_card *card, uint32_t most);

#endif
