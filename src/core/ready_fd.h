/* SPDX-License-Identifier: MIT */
/*
 * What VipxGetFd() hands out: a descriptor that is readable exactly while its object (a work queue, a completion queue,
 * the requests of a NIC handle) has something to take. The object holds it, NULL until somebody asks, and tells it under
 * its own lock whenever it becomes empty or is not empty any more; only then is there a system call.
 *
 * While a NIC handle has ready_fds, its service thread keeps watching the backend: the program may be asleep at any
 * moment, in a loop of its own that we do not see.
 */
#ifndef VIPL_CORE_READY_FD_H
#define VIPL_CORE_READY_FD_H

#include <stdbool.h>

#include "os/os.h"
#include "vipl/vipl.h"

struct vipl_nic;

struct vipl_ready_fd {
    struct vipl_waker waker; /* constant */
    struct vipl_nic *nic;    /* constant; it outlives its objects */
    uint32_t signalled;      /* guarded by the object's lock: whether the descriptor is readable */
};

/* NOT_SUPPORTED: VIPL_PROGRESS=inline. The caller holds a reference on the NIC and no lock. */
VIP_RETURN vipl_ready_fd_new(struct vipl_nic *nic, struct vipl_ready_fd **out);
void vipl_ready_fd_free(struct vipl_ready_fd *ready_fd);                /* NULL: nothing */
void vipl_ready_fd_set(struct vipl_ready_fd *ready_fd, bool something); /* as vipl_ready_fd_update() */
/* Hangs the ready_fd `*fresh` at an object without one, whose lock is held: it is NULL then. The descriptor, -1: no ready_fd. */
int vipl_ready_fd_attach(struct vipl_ready_fd **at, struct vipl_ready_fd **fresh, bool something);

/* Says whether there is something to take. The object's lock is held. */
static inline void vipl_ready_fd_update(struct vipl_ready_fd *ready_fd, bool something)
{
    if (ready_fd != NULL) {
        vipl_ready_fd_set(ready_fd, something);
    }
}

#endif
