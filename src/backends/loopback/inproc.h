/* SPDX-License-Identifier: MIT */
/* Data within one process. */
#ifndef VIPL_LOOPBACK_INPROC_H
#define VIPL_LOOPBACK_INPROC_H

#include "core/backend.h"

/* The whole transfer, at once. The sender's send lock is held. */
enum vipl_posted vipl_lo_local_send(struct vipl_vi *vi, struct vipl_vi *peer, struct vipl_send *send);
/* As vipl_backend.send_short and .rdma_short. */
bool vipl_lo_local_send_short(struct vipl_vi *peer, const void *from, size_t bytes);
bool vipl_lo_local_rdma_short(struct vipl_vi *vi, struct vipl_vi *peer, const struct vipl_rdma *rdma);

#endif
