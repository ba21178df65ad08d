/* SPDX-License-Identifier: MIT */
/* Progress, sleeping. */
#ifndef BACKENDS_RNIC_LOOP_H
#define BACKENDS_RNIC_LOOP_H

#include "backends/rnic/rnic.h"

/* What a NIC handle sleeps on. False: no descriptors left. */
bool vipl_rnic_loop_open(struct rnic_nic *nic);
void vipl_rnic_loop_close(struct rnic_nic *nic);

void vipl_rnic_poll(struct vipl_be_nic *be);
void vipl_rnic_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_rnic_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);

#endif
