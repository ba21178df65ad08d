/* SPDX-License-Identifier: MIT */
/* What became of a flow's transmissions: which are in flight, which are lost. */
#ifndef DEVICES_RNIC_EFE_INFLIGHT_H
#define DEVICES_RNIC_EFE_INFLIGHT_H

#include "devices/rnic/efe/state.h"

/* Bytes of a slot's frame to send, from the destination MAC to the CRC. */
uint32_t efe_inflight_bytes(const struct efe_slot *slot);
/* The slot's frame, queued or lost or in flight, was sent now. */
void efe_inflight_sent(struct efe_state *s, struct efe_flow *flow, uint32_t index, uint64_t now);
/* The peer has the frame. False: that was known. */
bool efe_inflight_acked(struct efe_state *s, struct efe_flow *flow, uint32_t index, uint64_t now);
/* What was sent before three others that arrived is lost. */
void efe_inflight_find_lost(struct efe_state *s, struct efe_flow *flow);
/* Everything in flight is lost. */
void efe_inflight_lose_all(struct efe_state *s, struct efe_flow *flow);
/* The slot is used no more; it may be in flight or lost. */
void efe_inflight_forget(struct efe_state *s, struct efe_flow *flow, uint32_t index);
/* The least number whose frame is lost; there is one. */
uint32_t efe_inflight_first_lost(const struct efe_flow *flow);

#endif
