/* SPDX-License-Identifier: MIT */
/* What EFE's sender does about acknowledgments and their absence. */
#ifndef DEVICES_RNIC_EFE_ACK_H
#define DEVICES_RNIC_EFE_ACK_H

#include "devices/rnic/efe_state.h"

/* Whether the frame acknowledges nothing but what was sent, or less than is known. */
bool efe_ack_is_possible(const struct efe_flow *flow, const struct efe_header *header);
/* Takes in next_expected, window, echo and, if not NULL, the selective acknowledgment of a possible frame of a heard flow. */
void efe_ack_receive(struct efe *efe, uint64_t now, struct efe_flow *flow, const struct efe_header *header,
                     const uint8_t *sack);
/* Does what the flow's timers are due for, but for its end. */
void efe_ack_timer(struct efe *efe, uint64_t now, struct efe_flow *flow);
/* Sets or stops the timer that asks a closed window. After whatever may change what can be sent. */
void efe_ack_watch_window(struct efe_state *s, uint64_t now, struct efe_flow *flow);

#endif
