/* SPDX-License-Identifier: MIT */
/* A VI's queue pair: creation, destruction, and the reset between two connections. */
#ifndef BACKENDS_RNIC_VI_H
#define BACKENDS_RNIC_VI_H

#include "backends/rnic/rnic.h"

/* Operations of the table in rnic.c; vipl_rnic_vi_abandon() is part of `abandon`. */
VIP_RETURN vipl_rnic_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_quiesce(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_revoke(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_rnic_vi_abandon(void);

/* Called before a VI connects or accepts: makes its queue pair idle and gives it the VI's
 * attributes. No lock is held. */
VIP_RETURN vipl_rnic_vi_prepare(struct rnic_vi *rv);

/* Gives the queue pair its peer and makes it receive; with `sending`, also send. Returns an errno
 * value as verbs.h says. The registry's lock is held. */
int vipl_rnic_vi_receive(struct rnic_vi *rv, const struct cm_message *peer, bool sending);
/* Called when a connection attempt has failed: stops the queue pair. The registry's lock is
 * held. */
void vipl_rnic_vi_stop(struct rnic_vi *rv);
/* The same, when another attempt follows. */
void vipl_rnic_vi_restart(struct rnic_vi *rv);

#endif
