/* SPDX-License-Identifier: MIT */
/*
 * Sleeping. A thread that waits for an object enlists in the object's list (under the object's
 * lock), then sleeps on its own waker. One sleeper of a NIC handle, the leader, also watches the
 * backend's descriptor and makes progress for all; when it leaves, the next one leads.
 */
#ifndef VIPL_CORE_WAIT_H
#define VIPL_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/list.h"
#include "os/os.h"
#include "os/os_mutex.h"
#include "vipl/vipl.h"

struct vipl_nic;

struct vipl_waiter {
    struct vipl_list link;     /* in an object's list of waiters; guarded by the object's lock */
    struct vipl_list nic_link; /* in the NIC's followers; guarded by the NIC's wait lock */
    struct vipl_waker *waker;
};

/* What a wait is for. */
struct vipl_wait_for {
    /* Anything but VIP_NOT_DONE ends the wait. With a waiter: enlists it in the same step, if there is nothing
     * yet. */
    VIP_RETURN (*attempt)(void *arg, struct vipl_waiter *waiter);
    /* Takes the waiter off the object's list, if it is still on it. `unused`: it will not attempt again; if it
     * has been woken, another waiter is woken instead. */
    void (*leave)(void *arg, struct vipl_waiter *waiter, bool unused);
    void *arg;
    const void *mask; /* the signals blocked while asleep, a sigset_t; NULL: those of the thread */
    /* The thread may be cancelled while it sleeps. What the call has begun is ended then by `cancelled`, if it is not
     * NULL, and by giving back the caller's reference on the NIC. */
    bool cancellable;
    void (*cancelled)(void *arg);
};

/* Waits; the caller holds a reference on the NIC and no lock. Times out with VIP_TIMEOUT. In a child that a signal handler
 * forked meanwhile: VIP_INVALID_PARAMETER (vipl_nic_is_inherited). */
VIP_RETURN vipl_wait(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline);

/* Wakes the longest waiter of a list, or all. The list's lock is held. */
void vipl_wake_one_locked(struct vipl_list *waiters);
void vipl_wake_all_locked(struct vipl_list *waiters);
/* For `leave` of an object whose waiters are woken one at a time. Its lock is held. */
void vipl_unlist_locked(struct vipl_list *waiters, struct vipl_waiter *waiter, bool unused);

/* The sleepers of one NIC handle. */
struct vipl_sleepers {
    struct vipl_mutex lock;     /* rank WAIT */
    void *leader;               /* struct vipl_waiter; atomic, written under lock */
    struct vipl_list followers; /* guarded by lock */
    void *idle;                 /* the service thread's, asleep until a leader leaves; as leader */
};

/* The service thread's sleep. `lead`: it leads if no thread does. `idle`: it sleeps without a limit while an
 * application thread leads, which passes the lead on when it is done. Otherwise it sleeps for `ms`. Its waker
 * ends any of these. True: it was idle. */
bool vipl_sleep_service(struct vipl_nic *nic, struct vipl_waiter *waiter, bool lead, bool idle, int ms);
void vipl_wake_sleepers(struct vipl_nic *nic); /* all of them: the NIC handle is closing */

#endif
