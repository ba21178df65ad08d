/* SPDX-License-Identifier: MIT */
/* EFE's incoming frames: which flow they are of, and what is delivered. */
#ifndef DEVICES_RNIC_EFE_RECEIVE_H
#define DEVICES_RNIC_EFE_RECEIVE_H

#include "devices/rnic/efe_state.h"

/* A frame that efe_frame_read() has read, for this MAC. */
void efe_receive_frame(struct efe *efe, uint64_t now, const struct efe_header *header, const uint8_t *frame);
/* Delivers what is kept, until the layer above refuses. */
void efe_receive_deliver(struct efe *efe, struct efe_flow *flow);

#endif
