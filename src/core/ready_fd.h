/* SPDX-License-Identifier: MIT */
/*
 * A ready descriptor, which VipxGetFd() returns: a descriptor that is readable exactly while its
 * object (a work queue, a completion queue, the requests of a NIC handle) has something to take.
 * The object has a pointer to its ready descriptor, which is NULL until the program asks for one.
 * The object signals the descriptor when it gets its first entry, and clears it when it loses its
 * last one, under the object's lock; only then is there a system call.
 *
 * While a NIC handle has ready descriptors, its service thread keeps watching the backend: the
 * program may sleep at any moment in a loop of its own, which the library does not see.
 */
#ifndef VIPL_CORE_READY_FD_H
#define VIPL_CORE_READY_FD_H

#include <stdbool.h>

#include "os/os.h"
#include "vipl/vipl.h"

struct vipl_nic;

struct vipl_ready_fd {
    struct vipl_waker waker; /* constant */
    struct vipl_nic *nic;    /* constant; the NIC handle outlives its objects */
    uint32_t signalled;      /* whether the descriptor is readable; guarded by the object's lock */
};

/* Creates a ready descriptor. VIP_ERROR_NOT_SUPPORTED with VIPL_PROGRESS=inline. The caller holds a
 * reference on the NIC and no lock. */
VIP_RETURN vipl_ready_fd_new(struct vipl_nic *nic, struct vipl_ready_fd **out);
void vipl_ready_fd_free(struct vipl_ready_fd *ready_fd); /* NULL: no effect */
/* The slow path of vipl_ready_fd_update(). */
void vipl_ready_fd_set(struct vipl_ready_fd *ready_fd, bool something);
/* Attaches *fresh to an object that has no ready descriptor, and sets *fresh to NULL. Returns the
 * object's file descriptor, or -1 if there is none. The object's lock is held. */
int vipl_ready_fd_attach(struct vipl_ready_fd **at, struct vipl_ready_fd **fresh, bool something);

/* Signals the descriptor if the object has something to take, and otherwise clears it; no system
 * call if nothing changes. NULL: no effect. The object's lock is held. */
static inline void vipl_ready_fd_update(struct vipl_ready_fd *ready_fd, bool something)
{
    if (ready_fd != NULL) {
        vipl_ready_fd_set(ready_fd, something);
    }
}

#endif
