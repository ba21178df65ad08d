/* SPDX-License-Identifier: MIT */
/* Polling between processes. */
#ifndef VIPL_LOOPBACK_QUICK_H
#define VIPL_LOOPBACK_QUICK_H

#include <stdbool.h>

#include "backends/loopback/loopback.h"

struct lo_remote;

bool vipl_lo_quick_poll(struct vipl_quick *quick);
void vipl_lo_quick_rest(
    struct vipl_be_nic *be); /* nothing comes from other processes, until there is a remote part */
void vipl_lo_quick_stir(struct vipl_be_nic *be);    /* something waits for a poll */
void vipl_lo_quick_watch(struct lo_remote *remote); /* a poll is over; rx is held */
/* Whether a poll is to look at the sockets, because it has not for about a millisecond. */
bool vipl_lo_quick_is_due(struct vipl_be_nic *be, struct lo_remote *remote);

#endif
