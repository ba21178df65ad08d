/* SPDX-License-Identifier: MIT */
/* Sessions, the receiving side. The NIC's rx lock is held. */
#ifndef VIPL_LOOPBACK_RX_H
#define VIPL_LOOPBACK_RX_H

#include "backends/loopback/link.h"

void vipl_lo_link_receive(struct lo_link *link);
void vipl_lo_link_teardown(struct lo_link *link);   /* the peer is dead */
void vipl_lo_drop_held(struct lo_session *session); /* with the session */

#endif
