/* SPDX-License-Identifier: MIT */
/* EFE's buffers: who may have how many, and which flows wait for one. Half of them are for frames
 * to send, half for received ones. */
#ifndef DEVICES_RNIC_EFE_CREDIT_H
#define DEVICES_RNIC_EFE_CREDIT_H

#include "devices/rnic/efe/state.h"

/* The slot that is reserved for the flow's next frame to send; EFE_NONE: it may not have one now,
 * and is told when it may. */
uint32_t efe_credit_reserve(struct efe_state *s, struct efe_flow *flow);
/* A slot for a frame that the flow received; EFE_NONE: it may not have one. */
uint32_t efe_credit_keep(struct efe_state *s, struct efe_flow *flow);
/* A slot of either kind is free again. */
void efe_credit_release(struct efe_state *s, uint32_t slot);
/* The flow waits no more. */
void efe_credit_forget(struct efe_state *s, struct efe_flow *flow);
/* Frames that a flow may be told to send beyond what has come. */
uint32_t efe_credit_available(const struct efe_state *s);

/* The flow is told in its turn, if it waits and its window is open. After whatever may open it. */
void efe_credit_queue(struct efe_state *s, struct efe_flow *flow);
/* Tells those that wait and have room, the one that has waited longest first. */
void efe_credit_notify(struct efe *efe);

#endif
