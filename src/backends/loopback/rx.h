/* SPDX-License-Identifier: MIT */
/* The receiving side of sessions. The callers hold the NIC's rx lock. */
#ifndef VIPL_LOOPBACK_RX_H
#define VIPL_LOOPBACK_RX_H

#include "backends/loopback/link.h"

/* Receives a batch of messages from the link, and goes on with RDMA Reads of the peer. */
void vipl_lo_link_receive(struct lo_link *link);
/* Reports the loss of the connection for all open sessions of a dead link. */
void vipl_lo_link_teardown(struct lo_link *link);
/* Drops the messages that the session holds, because it ends. The peer gets its request slots
 * back. */
void vipl_lo_drop_held(struct lo_session *session);

#endif
