/* SPDX-License-Identifier: MIT */
/* The command ring and its answers. */
#ifndef DEVICES_RNIC_COMMANDS_H
#define DEVICES_RNIC_COMMANDS_H

#include "devices/rnic/state.h"

/* Executes what the functions have posted, at most so many commands of each. Returns how many it was. */
uint32_t rnic_commands_run(struct rnic_card *card, uint32_t most);

#endif
