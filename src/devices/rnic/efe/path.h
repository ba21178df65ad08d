/* SPDX-License-Identifier: MIT */
/* Congestion control of EFE: one window for all flows between two MACs, driven by delay, and the
 * pace of sending. */
#ifndef DEVICES_RNIC_EFE_PATH_H
#define DEVICES_RNIC_EFE_PATH_H

#include "devices/rnic/efe/state.h"

void efe_path_init(const struct efe_state *s, struct efe_path *path, const uint8_t mac[6]);
/* Takes a sample of the round trip time. */
void efe_path_sample(struct efe_path *path, uint64_t now, uint64_t rtt);
/* Returns the smallest recent round trip time; 0: not known. */
uint64_t efe_path_base(const struct efe_path *path);

/* The peer has acknowledged a transmission. */
void efe_path_arrived(const struct efe_state *s, struct efe_path *path, uint64_t order);
void efe_path_lost(struct efe_path *path);
/* Frames of one flow were not acknowledged for too long. */
void efe_path_timeout(const struct efe_state *s, struct efe_path *path, uint64_t now);

/* Returns true if a frame of `bytes` bytes may be sent now. If the window forbids it, notes that a
 * larger one could be used. */
bool efe_path_may_send(const struct efe_state *s, struct efe_path *path, uint64_t now, uint32_t bytes);
/* If only the pace forbids sending: returns when it will allow it. */
uint64_t efe_path_next_send(const struct efe_state *s, const struct efe_path *path);
void efe_path_sent(struct efe_path *path, uint64_t now, uint32_t bytes);

/* How long to wait for an acknowledgment of the last frame in flight, and of any frame. */
uint64_t efe_path_tail_time(const struct efe_path *path);
uint64_t efe_path_timeout_time(const struct efe_state *s, const struct efe_path *path, uint32_t backoff);

#endif
