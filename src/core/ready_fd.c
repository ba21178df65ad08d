/* SPDX-License-Identifier: MIT */
/* Ready descriptors, for the event loops of programs. */
#include "core/ready_fd.h"

#include "core/nic.h"
#include "os/os_compiler.h"

VIP_RETURN vipl_ready_fd_new(struct vipl_nic *nic, struct vipl_ready_fd **out)
{
    VIP_RETURN rc = vipl_service_start(nic);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    struct vipl_ready_fd *ready_fd = vipl_zalloc(sizeof(*ready_fd));
    if (ready_fd == NULL || vipl_waker_open(&ready_fd->waker) != 0) {
        vipl_free(ready_fd);
        return VIP_ERROR_RESOURCE;
    }
    ready_fd->nic = nic;
    vipl_service_count_fd(nic, true);
    *out = ready_fd;
    return VIP_SUCCESS;
}

/* Clears the descriptor before it is closed: a forked child may still have the descriptor, and it
 * must not stay readable there for ever. */
void vipl_ready_fd_free(struct vipl_ready_fd *ready_fd)
{
    if (ready_fd != NULL) {
        vipl_ready_fd_update(ready_fd, false);
        vipl_service_count_fd(ready_fd->nic, false);
        vipl_waker_close(&ready_fd->waker);
        vipl_free(ready_fd);
    }
}

VIPL_NOINLINE void vipl_ready_fd_set(struct vipl_ready_fd *ready_fd, bool something)
{
    if (something && ready_fd->signalled == 0) {
        ready_fd->signalled = 1;
        vipl_waker_signal(&ready_fd->waker);
    } else if (!something && ready_fd->signalled != 0) {
        ready_fd->signalled = 0;
        vipl_waker_reset(&ready_fd->waker);
    }
}

int vipl_ready_fd_attach(struct vipl_ready_fd **at, struct vipl_ready_fd **fresh, bool something)
{
    if (*at == NULL) {
        *at = *fresh;
        *fresh = NULL;
        vipl_ready_fd_update(*at, something);
    }
    return *at == NULL ? -1 : (*at)->waker.fd;
}
