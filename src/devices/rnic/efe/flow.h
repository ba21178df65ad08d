/* SPDX-License-Identifier: MIT */
/* What happens to a flow of EFE: how it begins and ends, the frames that come for it,
 * acknowledgments and their absence. */
#ifndef DEVICES_RNIC_EFE_FLOW_H
#define DEVICES_RNIC_EFE_FLOW_H

#include "devices/rnic/efe/state.h"

/* --- life.c: beginning and end --- */

/* A new flow; if need be, the flow that has been idle for longest gives way, and its peer is told.
 * NULL: all are in use. */
struct efe_flow *efe_life_begin(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn);
/* The open flow ends. The peer is told unless it was it who said so. dead() is called at once,
 * unless the flow is left over with frames that the layer above is still to take. */
void efe_life_end(struct efe *efe, uint64_t now, struct efe_flow *flow, enum efe_death why);
/* A flow that was left over ends, and what it still keeps with it. dead() is called. */
void efe_life_finish(struct efe *efe, struct efe_flow *flow, enum efe_death why);
/* The ended flow's peer is told once more, a few times, at longer and longer intervals. */
void efe_life_repeat(struct efe *efe, uint64_t now, struct efe_flow *flow);

/* --- receive.c: which flow an incoming frame is of, and what is delivered --- */

/* A frame that efe_frame_read() has read, for this MAC. */
void efe_receive_frame(struct efe *efe, uint64_t now, const struct efe_header *header, const uint8_t *frame);
/* Delivers what is kept, until the layer above refuses. */
void efe_receive_deliver(struct efe *efe, struct efe_flow *flow);

/* --- ack.c: what the sender does about acknowledgments and their absence --- */

/* Whether the frame acknowledges nothing but what was sent, or less than is known. */
bool efe_ack_is_possible(const struct efe_flow *flow, const struct efe_header *header);
/* Takes in next_expected, window, echo and, if not NULL, the selective acknowledgment of a possible
 * frame of a heard flow. */
void efe_ack_receive(struct efe *efe, uint64_t now, struct efe_flow *flow, const struct efe_header *header,
                     const uint8_t *sack);
/* Does what the flow's timers are due for, but for its end. */
void efe_ack_timer(struct efe *efe, uint64_t now, struct efe_flow *flow);
/* Sets or stops the timer that asks a closed window. After whatever may change what can be sent. */
void efe_ack_watch_window(struct efe_state *s, uint64_t now, struct efe_flow *flow);

#endif
