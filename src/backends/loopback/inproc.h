/* SPDX-License-Identifier: MIT */
/* Transfers between two VIs of this process, which the post executes at once. */
#ifndef VIPL_LOOPBACK_INPROC_H
#define VIPL_LOOPBACK_INPROC_H

#include "core/backend.h"

/* As vipl_backend.post_send. The caller holds the sender's send lock; all three take the peer's
 * receive lock. */
enum vipl_posted vipl_lo_local_send(struct vipl_vi *vi, struct vipl_vi *peer, struct vipl_send *send);
/* As vipl_backend.send_short and .rdma_short. */
bool vipl_lo_local_send_short(struct vipl_vi *peer, const void *from, size_t bytes);
bool vipl_lo_local_rdma_short(struct vipl_vi *vi, struct vipl_vi *peer, const struct vipl_rdma *rdma);

#endif
