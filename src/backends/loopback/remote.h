/* SPDX-License-Identifier: MIT */
/* What the rest of the backend uses of the close_session that talks to other processes. */
#ifndef VIPL_LOOPBACK_REMOTE_H
#define VIPL_LOOPBACK_REMOTE_H

#include "backends/loopback/loopback.h"

/* --- progress --- */

void vipl_lo_remote_poll(struct vipl_be_nic *be);
void vipl_lo_remote_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_lo_remote_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
void vipl_lo_remote_close(struct vipl_be_nic *be);

#endif
