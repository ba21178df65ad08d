/* SPDX-License-Identifier: MIT */
/*
 * Sleeping. A thread that waits for an object puts its waiter on the object's list (under the
 * object's lock) and then sleeps on its own waker. One sleeper of a NIC handle, the leader, also
 * watches the backend's descriptor and makes progress for all others; when the leader leaves, the
 * next sleeper becomes the leader.
 */
#ifndef VIPL_CORE_WAIT_H
#define VIPL_CORE_WAIT_H

#include <stdbool.h>
#include <stddef.h>
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

enum { VIPL_WAIT_ARG = 128 };

/* What a call waits for, as functions of the object and their argument `arg`. */
struct vipl_wait_for {
    /* Tries to finish the call; any result except VIP_NOT_DONE ends the wait. If `waiter` is not
     * NULL and the result is VIP_NOT_DONE, the waiter is put on the object's list under the same
     * lock. */
    VIP_RETURN (*attempt)(void *arg, struct vipl_waiter *waiter);
    /* Takes the waiter off the object's list, if the waiter is still on it. `unused`: the call will
     * not attempt again; if its waiter has been woken, another waiter is woken instead. */
    void (*leave)(void *arg, struct vipl_waiter *waiter, bool unused);
    /* With arg_bytes, both get a copy of what `arg` points to, which outlives the thread if the
     * program kills it in its sleep (os/killed.h); vipl_wait() copies it back. Else `arg` is not on
     * the thread's stack. */
    void *arg;
    size_t arg_bytes; /* at most VIPL_WAIT_ARG */
    /* The signals that are blocked during the sleep, a sigset_t; NULL: those of the thread. */
    const void *mask;
    /* The thread may be cancelled while it sleeps. Then, and if the thread is killed, `cancelled`,
     * if it is not NULL, ends what the call has begun, and vipl_wait() gives the caller's reference
     * on the NIC back. */
    bool cancellable;
    void (*cancelled)(void *arg);
    /* Descriptors of the program that are watched as well; NULL: none. When one of them is ready,
     * and attempt() finds nothing, the wait ends with VIP_NOT_DONE. */
    struct vipl_more_fds *fds;
};

/* Waits until what->attempt() ends the wait; VIP_TIMEOUT after the deadline. The caller holds a
 * reference on the NIC and no lock. In a child that a signal handler forked meanwhile the result is
 * VIP_INVALID_PARAMETER (vipl_nic_is_inherited). */
VIP_RETURN vipl_wait(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline);

/* Wakes the waiter that has waited longest, or all waiters. The lock of the list is held. */
void vipl_wake_one_locked(struct vipl_list *waiters);
void vipl_wake_all_locked(struct vipl_list *waiters);
/* Does what `leave` has to do, for an object whose waiters are woken one at a time. The object's
 * lock is held. */
void vipl_unlist_locked(struct vipl_list *waiters, struct vipl_waiter *waiter, bool unused);

/* The sleepers of one NIC handle. */
struct vipl_sleepers {
    struct vipl_mutex lock;     /* rank WAIT */
    void *leader;               /* atomic: struct vipl_waiter; written under lock */
    struct vipl_list followers; /* guarded by lock */
    /* atomic: the waiter of the service thread while it sleeps until a leader leaves; written under
     * lock */
    void *idle;
};

/* The sleep of the service thread. `lead`: the service thread becomes the leader if there is none.
 * `idle`: if an application thread leads, the service thread sleeps without a time limit, and that
 * application thread wakes it when it leaves. Otherwise the service thread sleeps for `ms`. Its
 * waker ends each of these sleeps. Returns true if the sleep was an idle one. */
bool vipl_sleep_service(struct vipl_nic *nic, struct vipl_waiter *waiter, bool lead, bool idle, int ms);
/* Wakes all sleepers, because the NIC handle is closing. */
void vipl_wake_sleepers(struct vipl_nic *nic);

#endif
