/* SPDX-License-Identifier: MIT */
/* EFE's tables of flows and paths: finding, making and removing entries, which flows are idle, and
 * their timers. */
#ifndef DEVICES_RNIC_EFE_TABLE_H
#define DEVICES_RNIC_EFE_TABLE_H

#include "devices/rnic/efe/state.h"

void efe_table_init(struct efe_state *s);
/* NULL: there is no such open flow. */
struct efe_flow *efe_table_find(const struct efe_state *s, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn);
/* A zeroed flow with its key and path, whose epoch is drawn. NULL: none is free. */
struct efe_flow *efe_table_make(struct efe_state *s, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn);
/* The flow is not found any more, and has left its path. */
void efe_table_remove(struct efe_state *s, struct efe_flow *flow);
/* It may be made again. */
void efe_table_free(struct efe_state *s, struct efe_flow *flow);
/* The flow is among the idle ones or not; if it becomes one now, it is the last to be reclaimed. */
void efe_table_set_idle(struct efe_state *s, struct efe_flow *flow, bool idle);
/* It is the first to be reclaimed. */
void efe_table_set_useless(struct efe_state *s, struct efe_flow *flow);

/* --- timer.c: one timer for each flow and one for each path; the next one is at hand, whatever
 * their number --- */

void efe_timer_init(struct efe_state *s);
/* EFE_NEVER: the timer is not set. `timer` is a flow's number, or the number of flows and a
 * path's. */
void efe_timer_set(struct efe_state *s, uint32_t timer, uint64_t due);
/* The timer that is due first, of several the one with the least number; EFE_NONE: none is set. */
uint32_t efe_timer_first(const struct efe_state *s);
uint64_t efe_timer_due(const struct efe_state *s, uint32_t timer);

#endif
