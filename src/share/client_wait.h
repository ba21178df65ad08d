/* SPDX-License-Identifier: MIT */
/* Taking completions of shared objects, and waiting for them: entry points for shared handles. */
#ifndef VIPL_SHARE_CLIENT_WAIT_H
#define VIPL_SHARE_CLIENT_WAIT_H

#include <stdbool.h>

#include "vipl/vipl.h"

/* `mask`: the signals blocked while asleep, a sigset_t; NULL: those of the thread. */
VIP_RETURN vipl_share_done(void *vi, bool recv, VIP_DESCRIPTOR **out);
VIP_RETURN vipl_share_wait(void *vi, bool recv, VIP_ULONG timeout, const void *mask, VIP_DESCRIPTOR **out);
VIP_RETURN vipl_share_cq_done(void *cq, void **vi, VIP_BOOLEAN *recv);
VIP_RETURN vipl_share_cq_wait(void *cq, VIP_ULONG timeout, const void *mask, void **vi, VIP_BOOLEAN *recv);
/* The descriptor of a shared handle: of a queue (recv: which), of a completion queue or a NIC handle. */
VIP_RETURN vipl_share_fd(const void *handle, bool recv, int *fd);

#endif
