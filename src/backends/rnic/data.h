/* SPDX-License-Identifier: MIT */
/* Posts, completions, and room for more. */
#ifndef BACKENDS_RNIC_DATA_H
#define BACKENDS_RNIC_DATA_H

#include "backends/rnic/rnic.h"

enum vipl_posted vipl_rnic_data_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
enum vipl_posted vipl_rnic_data_recv(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv);

void vipl_rnic_data_init(struct rnic_vi *rv); /* once, in new memory */
/* The VI is on no list any more, and no thread is about to make room for it. No lock is held. */
void vipl_rnic_data_forget(struct rnic_nic *nic, struct rnic_vi *rv);

/* Messages that come from now on wait for that: */
void vipl_rnic_data_hold(struct rnic_vi *rv);
/* Core knows that the VI is connected: the card gets the receives that are there. The registry's
 * lock is held, or none. */
void vipl_rnic_data_open(struct rnic_nic *nic, struct rnic_vi *rv);
/* It is no more: what is posted from now on is for the next connection. */
void vipl_rnic_data_shut(struct rnic_vi *rv);

/* Takes completions and reports them, a bounded number. `rx` is held. Whether there may be more. */
bool vipl_rnic_data_complete(struct rnic_nic *nic);
/* Makes room where posts found none, as far as that is possible now. `rx` is held. */
void vipl_rnic_data_make_room(struct rnic_nic *nic);

#endif
