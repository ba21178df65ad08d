/* SPDX-License-Identifier: MIT */
/* How EFE's flows begin and end. */
#ifndef DEVICES_RNIC_EFE_LIFE_H
#define DEVICES_RNIC_EFE_LIFE_H

#include "devices/rnic/efe_state.h"

/* A new flow; if need be, the flow that has been idle for longest gives way, and its peer is told. NULL: all are in use. */
struct efe_flow *efe_life_begin(struct efe *efe, uint64_t now, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn);
/* The open flow ends. The peer is told unless it was it who said so. dead() is called at once, unless the flow is left over with frames
 * that the layer above is still to take. */
void efe_life_end(struct efe *efe, uint64_t now, struct efe_flow *flow, enum efe_death why);
/* A flow that was left over ends, and what it still keeps with it. dead() is called. */
void efe_life_finish(struct efe *efe, struct efe_flow *flow, enum efe_death why);
/* The ended flow's peer is told once more, a few times, at longer and longer intervals. */
void efe_life_repeat(struct efe *efe, uint64_t now, struct efe_flow *flow);

#endif
