/* SPDX-License-Identifier: MIT */
/* Taking completions of shared objects, and waiting for them: entry points for shared handles.
 * Called by src/api without a lock; the results are those of the VIPL functions. */
#ifndef VIPL_SHARE_CLIENT_WAIT_H
#define VIPL_SHARE_CLIENT_WAIT_H

#include <stdbool.h>

#include "vipl/vipl.h"

/* `mask` is a sigset_t of the signals that are blocked during the sleep; NULL: those that
 * the thread blocks. */
VIP_RETURN vipl_share_done(void *vi, bool recv, VIP_DESCRIPTOR **out);
VIP_RETURN vipl_share_wait(void *vi, bool recv, VIP_ULONG timeout, const void *mask, VIP_DESCRIPTOR **out);
VIP_RETURN vipl_share_cq_done(void *cq, void **vi, VIP_BOOLEAN *recv);
VIP_RETURN vipl_share_cq_wait(void *cq, VIP_ULONG timeout, const void *mask, void **vi, VIP_BOOLEAN *recv);
/* The ready descriptor of a shared handle: of a work queue (recv: which one), a completion queue or
 * a NIC handle. */
VIP_RETURN vipl_share_fd(const void *handle, bool recv, int *fd);

#endif
