/* SPDX-License-Identifier: MIT */
/* Scanning the doorbells of all functions. */
#ifndef DEVICES_RNIC_SCAN_H
#define DEVICES_RNIC_SCAN_H

#include "devices/rnic/state.h"

/* Looks at everything whose hint is set, of all functions that work. */
void rnic_scan(struct rnic_card *card);
/* Whether such a look would find something. */
bool rnic_scan_any(const struct rnic_card *card);
/* Tells the drivers that the card sleeps, or does not; then a full fence. */
void rnic_scan_asleep(struct rnic_card *card, bool asleep);

#endif
