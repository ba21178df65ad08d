/* SPDX-License-Identifier: MIT */
/* The registers of BAR0. */
#ifndef DEVICES_RNIC_CONTROL_H
#define DEVICES_RNIC_CONTROL_H

#include "devices/rnic/state.h"

/* An aligned word of BAR0. */
uint32_t rnic_control_read(const struct rnic_card *card, unsigned fn, uint32_t offset);
void rnic_control_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value);

#endif
