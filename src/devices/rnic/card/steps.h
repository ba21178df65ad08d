/* SPDX-License-Identifier: MIT */
/* The parts of the card's work that card.c does in turn. */
#ifndef DEVICES_RNIC_CARD_STEPS_H
#define DEVICES_RNIC_CARD_STEPS_H

#include "devices/rnic/card/state.h"

/* --- control.c: the registers of BAR0 --- */

/* An aligned word of BAR0. */
uint32_t rnic_control_read(const struct rnic_card *card, unsigned fn, uint32_t offset);
void rnic_control_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value);

/* --- scan.c: the doorbells of all functions --- */

/* Looks at everything whose hint is set, of all functions that work. */
void rnic_scan(struct rnic_card *card);
/* Whether such a look would find something. */
bool rnic_scan_any(const struct rnic_card *card);
/* Tells the drivers that the card sleeps, or does not; then a full fence. */
void rnic_scan_asleep(struct rnic_card *card, bool asleep);

/* --- commands.c: the command ring and its answers --- */

/* Executes what the functions have posted, at most so many commands of each. Returns how many it
 * was. */
uint32_t rnic_commands_run(struct rnic_card *card, uint32_t most);

/* --- round_robin.c: sending. Functions have turns, of each its flows, of each its queue pairs
 * --- */

/* Gives at most so many turns, and ends as many queue pairs whose flows have died. Returns how many
 * it was. */
uint32_t rnic_round_robin_run(struct rnic_card *card, uint32_t most);

#endif
