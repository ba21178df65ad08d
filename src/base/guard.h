/* SPDX-License-Identifier: MIT */
/*
 * A signal handler may call the library while its thread is inside it. A function that may not run then returns
 * before it has changed anything: each function of the API enters and leaves the guard of its thread.
 *
 * Six functions are async-signal-safe: those that post and reap, and VipQueryVi(). They are refused while the thread
 * runs in the library, but not while it sleeps there, because a sleeping thread holds no lock. All other functions
 * are refused then too, since they may have to wait for the call that sleeps. One of the six may be called by a
 * handler that has interrupted the program's malloc(), and the library cannot find out. Therefore none of them, and
 * nothing that they call, uses the C library's heap or its streams (os.h has an allocator that may be interrupted),
 * or starts a thread.
 */
#ifndef VIPL_BASE_GUARD_H
#define VIPL_BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "vipl/vipl.h"

enum vipl_call_state { VIPL_OUTSIDE, VIPL_INSIDE, VIPL_INSIDE_SAFELY };

/* The guard of this thread. A call that a handler makes restores it before it returns. */
struct vipl_guard {
    volatile uint32_t call_state; /* enum vipl_call_state */
    volatile uint32_t sleeps;     /* in a call that sleeps, and has left `call_state` until it wakes up */
    int cancel;                   /* whether the thread may be cancelled outside; for vipl_cancel_restore() */
};

extern _Thread_local struct vipl_guard vipl_guard VIPL_FAST_THREAD_LOCAL;

/* For the six: false, the thread is inside the library. */
static inline bool vipl_guard_enter_safe(void)
{
    if (vipl_guard.call_state != VIPL_OUTSIDE) {
        return false;
    }
    vipl_guard.call_state = VIPL_INSIDE_SAFELY;
    vipl_signal_fence();
    return true;
}

static inline void vipl_guard_leave_safe(void)
{
    vipl_signal_fence();
    vipl_guard.call_state = VIPL_OUTSIDE;
}

/* For all others. Until it leaves, the thread can be cancelled only where it sleeps (wait.c). */
bool vipl_guard_enter(void);                /* false: the thread is inside */
VIP_RETURN vipl_guard_leave(VIP_RETURN rc); /* gives back what it is given, for the entry point to return */
void vipl_guard_cancelled(void);            /* the call ends because its thread does */

/* Around a sleep. */
void vipl_guard_sleep(void);
void vipl_guard_wake(void);

/* Whether the call may come from a handler that has interrupted any code of the program. */
static inline bool vipl_guard_is_safe_call(void)
{
    return vipl_guard.call_state == VIPL_INSIDE_SAFELY;
}

#endif
