/* SPDX-License-Identifier: MIT */
/* Congestion control of EFE: one window for all flows between two MACs, driven by delay, and the
 * pace of sending. */
#ifndef DEVICES_RNIC_EFE_PATH_H
#define DEVICES_RNIC_EFE_PATH_H

#include "devices/rnic/efe/state.h"

void efe_path_init(const struct efe_state *s, struct efe_path *path, const uint8_t mac[6]);
/* A round trip took so long. */
void efe_path_sample(struct efe_path *path, uint64_t now, uint64_t rtt);
/* The least round trip time of late; 0: not known. */
uint64_t efe_path_base(const struct efe_path *path);

/* A transmission arrived, as the peer says. */
void efe_path_arrived(const struct efe_state *s, struct efe_path *path, uint64_t order);
void efe_path_lost(struct efe_path *path);
/* Nothing was heard of frames of one flow for too long. */
void efe_path_timeout(const struct efe_state *s, struct efe_path *path, uint64_t now);

/* Whether a frame of so many bytes may be sent now; if not for its window, this notes that more
 * could be used. */
bool efe_path_may_send(const struct efe_state *s, struct efe_path *path, uint64_t now, uint32_t bytes);
/* If the pace alone forbids it: when it will not. */
uint64_t efe_path_next_send(const struct efe_state *s, const struct efe_path *path);
void efe_path_sent(struct efe_path *path, uint64_t now, uint32_t bytes);

/* How long to wait for the answer to the last frame in flight, and for any. */
uint64_t efe_path_tail_time(const struct efe_path *path);
uint64_t efe_path_timeout_time(const struct efe_state *s, const struct efe_path *path, uint32_t backoff);

#endif
