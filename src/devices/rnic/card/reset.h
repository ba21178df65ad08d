/* SPDX-License-Identifier: MIT */
/* How a function begins and ends. */
#ifndef DEVICES_RNIC_CARD_RESET_H
#define DEVICES_RNIC_CARD_RESET_H

#include "devices/rnic/card/state.h"

/* CTRL.ENABLE was set. Bad ring bases: it stays disabled, and the error log says so. */
void rnic_enable(struct rnic_card *card, unsigned fn);
/* CTRL.RESET: all objects and flows end, registers are as after power-up; what PCI defines
 * stays. */
void rnic_reset(struct rnic_card *card, unsigned fn);
/* Function-level reset: that, and what PCI defines. */
void rnic_reset_whole(struct rnic_card *card, unsigned fn);

#endif
