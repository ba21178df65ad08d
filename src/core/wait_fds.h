/* SPDX-License-Identifier: MIT */
/* Descriptors of the program that a wait for an object watches as well: a copy of the program's
 * array for one call. */
#ifndef VIPL_CORE_WAIT_FDS_H
#define VIPL_CORE_WAIT_FDS_H

#include <poll.h>

#include "os/os.h"
#include "vipl/vipl.h"

enum { VIPL_WAIT_FDS_FEW = 16 }; /* which need no memory from the heap */

struct vipl_wait_fds {
    struct vipl_more_fds more;
    struct pollfd few[VIPL_POLL_OWN + VIPL_WAIT_FDS_FEW];
};

/* Copies the array. VIP_INVALID_PARAMETER: there is none, or it is too long for any system;
 * VIP_ERROR_RESOURCE: no memory. */
VIP_RETURN vipl_wait_fds_begin(struct vipl_wait_fds *w, const struct pollfd *fds, VIP_ULONG count);
/* Releases what begin() allocated. In a child of a fork that a signal handler made meanwhile,
 * nothing is released. */
void vipl_wait_fds_end(struct vipl_wait_fds *w);
/* What a wait that found no entry of its object returns. It looks at the descriptors once more if
 * the wait's time is over: with a time limit of 0 there was no sleep in which they were watched.
 * Sets `fds[].revents`. */
VIP_RETURN vipl_wait_fds_result(struct vipl_wait_fds *w, struct pollfd *fds, VIP_RETURN rc);

#endif
