/* SPDX-License-Identifier: MIT */
/* Posts, completions, and the growth of queues. */
#ifndef BACKENDS_RNIC_DATA_H
#define BACKENDS_RNIC_DATA_H

#include "backends/rnic/rnic.h"

/* The operations `post_send` and `post_recv`. */
enum vipl_posted vipl_rnic_data_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
enum vipl_posted vipl_rnic_data_recv(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv);

/* Initializes the fields that stay when a VI goes back to the pool. Called once, for new memory. */
void vipl_rnic_data_init(struct rnic_vi *rv);
/* Takes the VI off the list of those that want room, and waits until no thread makes room for it.
 * No lock is held. */
void vipl_rnic_data_forget(struct rnic_nic *nic, struct rnic_vi *rv);

/* Before vipl_rnic_data_open(): messages that arrive from now on wait for it. */
void vipl_rnic_data_hold(struct rnic_vi *rv);
/* Called when core knows that the VI is connected: hands the posted receives to the card. The
 * caller holds the registry's lock, or none. */
void vipl_rnic_data_open(struct rnic_nic *nic, struct rnic_vi *rv);
/* Called when the connection has ended: receives that are posted from now on are for the next
 * connection. */
void vipl_rnic_data_shut(struct rnic_vi *rv);

/* Takes completions, at most a fixed number, and reports them to core. Returns true if there may be
 * more. `rx` is held. */
bool vipl_rnic_data_complete(struct rnic_nic *nic);
/* Makes room in queues in which posts found none, as far as that is possible now. `rx` is held. */
void vipl_rnic_data_make_room(struct rnic_nic *nic);

#endif
