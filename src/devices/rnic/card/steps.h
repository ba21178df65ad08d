/* SPDX-License-Identifier: MIT */
/* The functions by which card.c does the work of the card, in turn. */
#ifndef DEVICES_RNIC_CARD_STEPS_H
#define DEVICES_RNIC_CARD_STEPS_H

#include "devices/rnic/card/state.h"

/* --- control.c: the registers of BAR0 --- */

/* Accesses to an aligned word of BAR0. */
uint32_t rnic_control_read(const struct rnic_card *card, unsigned fn, uint32_t offset);
void rnic_control_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value);

/* --- scan.c: the doorbells of all functions --- */

/* Reads the doorbells whose hints are set, of all functions that are enabled. */
void rnic_scan(struct rnic_card *card);
/* Returns true if rnic_scan() would find something. */
bool rnic_scan_any(const struct rnic_card *card);
/* Stores ASLEEP for all drivers, then issues a full fence. */
void rnic_scan_asleep(struct rnic_card *card, bool asleep);

/* --- commands.c: the command ring and its answers --- */

/* Executes the posted commands, at most `most` of each function. Returns how many it has
 * executed. */
uint32_t rnic_commands_run(struct rnic_card *card, uint32_t most);

/* --- round_robin.c: sending. Functions have turns, of each its flows, of each its queue pairs
 * --- */

/* Gives at most `most` turns, and ends at most as many queue pairs whose flows have died. Returns
 * how many turns and ends there were. */
uint32_t rnic_round_robin_run(struct rnic_card *card, uint32_t most);

#endif
