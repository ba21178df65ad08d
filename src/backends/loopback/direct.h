/* SPDX-License-Identifier: MIT */
/*
 * RDMA without the peer's help: where the kernel lets this process into the peer's memory, and the peer's export table has the
 * range, it is a copy in memory that both have mapped, or one system call. All under the VI's send lock.
 */
#ifndef VIPL_LOOPBACK_DIRECT_H
#define VIPL_LOOPBACK_DIRECT_H

#include "backends/loopback/link.h"

/* Whether the kernel and the peer VI let us; if not, the rings are to do it, and the peer says what is wrong. */
bool vipl_lo_direct_may(const struct lo_session *session, bool write, uint64_t address);
/* Reads or writes the peer's memory, if it may. False: it is not open, or not there, and the rings are to do it. */
bool vipl_lo_direct_access(struct lo_session *session, const struct vipl_send *send);
/* The same as vipl_backend.rdma_short. */
bool vipl_lo_direct_short(struct lo_session *session, const struct vipl_rdma *rdma);

#endif
