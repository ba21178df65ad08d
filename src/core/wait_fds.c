/* SPDX-License-Identifier: MIT */
/* Descriptors of the program that a wait for an object watches as well. */
#include "core/wait_fds.h"

#include <limits.h>
#include <string.h>

enum { MAX_COUNT = INT_MAX / (int)sizeof(struct pollfd) - VIPL_POLL_OWN };

VIP_RETURN vipl_wait_fds_begin(struct vipl_wait_fds *w, const struct pollfd *fds, VIP_ULONG count)
{
    if ((fds == NULL && count > 0) || count > MAX_COUNT) {
        return VIP_INVALID_PARAMETER;
    }
    size_t all = VIPL_POLL_OWN + (size_t)count;
    w->more.count = (unsigned)count;
    w->more.set = count <= VIPL_WAIT_FDS_FEW ? w->few : vipl_alloc(all * sizeof(*w->more.set));
    if (w->more.set == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    for (unsigned i = 0; i < w->more.count; i++) {
        w->more.set[VIPL_POLL_OWN + i] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
    }
    return VIP_SUCCESS;
}

void vipl_wait_fds_end(struct vipl_wait_fds *w)
{
    if (w->more.set != w->few) {
        vipl_free(w->more.set);
    }
}

VIP_RETURN vipl_wait_fds_result(struct vipl_wait_fds *w, struct pollfd *fds, VIP_RETURN rc)
{
    if (rc == VIP_TIMEOUT && w->more.count > 0) {
        (void)vipl_poll_more(NULL, 0, &w->more, 0, NULL);
        rc = vipl_more_fds_are_ready(&w->more) ? VIP_NOT_DONE : rc;
    }
    for (unsigned i = 0; i < w->more.count; i++) {
        fds[i].revents = rc == VIP_NOT_DONE ? w->more.set[VIPL_POLL_OWN + i].revents : 0;
    }
    return rc;
}
