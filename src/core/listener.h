/* SPDX-License-Identifier: MIT */
/*
 * The discriminators that a NIC handle takes requests for. A program waits for each connection with a call of its own, so
 * a discriminator stays listened to between two such calls: the backend is told once, and not again until core drops
 * it. Of those that no call waits for the longest unused gives way, beyond 64. A program with a ready descriptor for
 * requests is not inside VipConnectWait() when they come: there what it has waited for once stays listened to, up to 1024.
 */
#ifndef VIPL_CORE_LISTENER_H
#define VIPL_CORE_LISTENER_H

#include "core/backend.h"

struct vipl_nic;

/* A call begins to wait for requests, and ends. No lock is held. */
VIP_RETURN vipl_listener_begin(struct vipl_nic *nic, const struct vipl_address *local);
void vipl_listener_end(struct vipl_nic *nic, const struct vipl_address *local);
/* The NIC handle is closing, and no call uses it any more: the backend is told to listen no more. */
void vipl_listeners_fini(struct vipl_nic *nic);

#endif
