/* SPDX-License-Identifier: MIT */
/*
 * The listeners of a NIC handle: the discriminators that the NIC handle takes requests for. A
 * program makes a call for each connection that it waits for, so core keeps a listener between two
 * such calls: the backend is told once, until core drops the listener. Core keeps up to 64
 * listeners for which no call waits, and beyond that drops the one that was unused for the longest
 * time. A program with a ready descriptor for requests is not inside VipConnectWait() when they
 * come: for such a program core keeps up to 1024. A NIC handle with VIPX_BRIEF_LISTENER keeps none.
 */
#ifndef VIPL_CORE_LISTENER_H
#define VIPL_CORE_LISTENER_H

#include "core/backend.h"

struct vipl_nic;

/* A call begins to wait for requests, and ends its wait. No lock is held. */
VIP_RETURN vipl_listener_begin(struct vipl_nic *nic, const struct vipl_address *local);
void vipl_listener_end(struct vipl_nic *nic, const struct vipl_address *local);
/* Drops all listeners. The NIC handle is closing, and no call uses it any more. */
void vipl_listeners_fini(struct vipl_nic *nic);

#endif
