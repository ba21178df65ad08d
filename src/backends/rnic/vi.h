/* SPDX-License-Identifier: MIT */
/* A VI's queue pair: its beginning, its end, and what comes between two connections. */
#ifndef BACKENDS_RNIC_VI_H
#define BACKENDS_RNIC_VI_H

#include "backends/rnic/rnic.h"

VIP_RETURN vipl_rnic_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_quiesce(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_revoke(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_abandon(void);

/* Before a VI connects or accepts: its queue pair is idle and has the VI's attributes. No lock is
 * held. */
VIP_RETURN vipl_rnic_vi_prepare(struct rnic_vi *rv);

/* The queue pair knows its peer and receives; with `sending` it sends too. The registry's lock is
 * held. Errors of the card as verbs.h says. */
int vipl_rnic_vi_receive(struct rnic_vi *rv, const struct cm_message *peer, bool sending);
/* The connection has not come about: nothing is sent or received from now on. The registry's lock
 * is held. */
void vipl_rnic_vi_stop(struct rnic_vi *rv);
/* The same, but another connection is to come about. */
void vipl_rnic_vi_restart(struct rnic_vi *rv);

#endif
