/* SPDX-License-Identifier: MIT */
/* EFE's timers: one for each flow and one for each path, the next one at hand, whatever their number. */
#ifndef DEVICES_RNIC_EFE_TIMER_H
#define DEVICES_RNIC_EFE_TIMER_H

#include "devices/rnic/efe_state.h"

void efe_timer_init(struct efe_state *s);
/* EFE_NEVER: the timer is not set. `timer` is a flow's number, or the number of flows and a path's. */
void efe_timer_set(struct efe_state *s, uint32_t timer, uint64_t due);
/* The timer that is due first, of several the one with the least number; EFE_NONE: none is set. */
uint32_t efe_timer_first(const struct efe_state *s);
uint64_t efe_timer_due(const struct efe_state *s, uint32_t timer);

#endif
