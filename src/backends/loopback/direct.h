/* SPDX-License-Identifier: MIT */
/*
 * Direct access: RDMA without the peer's help. Where the kernel allows this process to access the
 * peer's memory, and the peer's export table has the range, RDMA is a copy in memory that both
 * processes have mapped, or one system call. The callers hold the VI's send lock.
 */
#ifndef VIPL_LOOPBACK_DIRECT_H
#define VIPL_LOOPBACK_DIRECT_H

#include "backends/loopback/link.h"

/* Whether the kernel and the params of the peer VI allow direct access. If not, the operation goes
 * through the rings, and the peer reports what is wrong. */
bool vipl_lo_direct_may(const struct lo_session *session, bool write, uint64_t address);
/* Executes an RDMA operation by direct access. Returns false if the range is not exported or
 * permitted, or memory is not there: the operation then goes through the rings. */
bool vipl_lo_direct_access(struct lo_session *session, const struct vipl_send *send);
/* The same for one piece, as vipl_backend.rdma_short. */
bool vipl_lo_direct_short(struct lo_session *session, const struct vipl_rdma *rdma);

#endif
