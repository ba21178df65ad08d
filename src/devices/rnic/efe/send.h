/* SPDX-License-Identifier: MIT */
/* EFE's outgoing frames: numbered ones in turn of their flows, acknowledgments, probes, resets. */
#ifndef DEVICES_RNIC_EFE_SEND_H
#define DEVICES_RNIC_EFE_SEND_H

#include "devices/rnic/efe/state.h"

/* The flow may have something to send. */
void efe_send_schedule(struct efe_state *s, struct efe_flow *flow);
/* What window, pace and switch allow is sent. */
void efe_send_pump(struct efe *efe, uint64_t now, struct efe_path *path);
/* The same at the next efe_advance(), for the path of this flow. */
void efe_send_again(struct efe_state *s, uint64_t now, const struct efe_flow *flow);
/* Whether the peer's window keeps all back that could be sent. */
bool efe_send_is_stopped(const struct efe_flow *flow);
/* The flow is not in its path's turns any more. */
void efe_send_forget(struct efe_state *s, struct efe_flow *flow);

/* The frame in flight that was sent last is sent once more, whatever the windows say. */
void efe_send_tail(struct efe *efe, uint64_t now, struct efe_flow *flow);
/* An acknowledgment, with all that has come. */
void efe_send_ack(struct efe *efe, uint64_t now, struct efe_flow *flow);
void efe_send_probe(struct efe *efe, uint64_t now, struct efe_flow *flow);

/* The flow has ended. */
void efe_send_reset(struct efe *efe, uint64_t now, const struct efe_flow *flow);
/* There is no such flow as this frame is of. At most so often. */
void efe_send_refusal(struct efe *efe, uint64_t now, const struct efe_header *header);
/* An acknowledgment to a peer that seems to have begun again: if it has, it resets the flow. At
 * most so often. */
void efe_send_challenge(struct efe *efe, uint64_t now, struct efe_flow *flow);

/* When the peer has been silent for too long; EFE_NEVER: nothing is awaited of it, neither an
 * acknowledgment nor a missing frame. */
uint64_t efe_send_dead_at(const struct efe_flow *flow);
/* The flow's timers are where they belong, and it is among the idle ones or not. After whatever was
 * done to it. */
void efe_send_refresh(struct efe_state *s, struct efe_flow *flow);

#endif
