/* SPDX-License-Identifier: MIT */
/*
 * What VipxGetFd() returns: a descriptor that is readable exactly while its object (a work queue, a completion
 * queue, the requests of a NIC handle) has something to take. The object has a pointer to it, which is NULL until
 * the program asks for it, and signals or clears it under its own lock whenever it gets its first entry or loses its
 * last one; only then is there a system call.
 *
 * While a NIC handle has ready descriptors, its service thread keeps watching the backend: the program may be asleep
 * at any moment, in a loop of its own that the library does not see.
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

/* VIP_ERROR_NOT_SUPPORTED with VIPL_PROGRESS=inline. The caller holds a reference on the NIC and no lock. */
VIP_RETURN vipl_ready_fd_new(struct vipl_nic *nic, struct vipl_ready_fd **out);
void vipl_ready_fd_free(struct vipl_ready_fd *ready_fd);                /* NULL: nothing */
void vipl_ready_fd_set(struct vipl_ready_fd *ready_fd, bool something); /* as vipl_ready_fd_update() */
/* Attaches `*fresh` to an object without one, whose lock is held; *fresh is NULL then. Returns the descriptor, or
 * -1: the object has none. */
int vipl_ready_fd_attach(struct vipl_ready_fd **at, struct vipl_ready_fd **fresh, bool something);

/* Signals the descriptor, or clears it, if that changes anything. The object's lock is held. */
static inline void vipl_ready_fd_update(struct vipl_ready_fd *ready_fd, bool something)
{
    if (ready_fd != NULL) {
        vipl_ready_fd_set(ready_fd, something);
    }
}

#endif
