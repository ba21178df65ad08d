/* SPDX-License-Identifier: MIT */
/*
 * A signal handler may call the library while its thread is inside it. What may not run then says so, before it has
 * touched anything: each function of the API asks here when it is entered, and says when it leaves.
 *
 * Six functions are async-signal-safe: those that post and reap, and VipQueryVi(). They are refused while the
 * thread runs in the library, but not while it sleeps there: asleep, it holds no lock. All others are refused then too,
 * for what they do may have to wait for the call that sleeps. As nobody can tell whether one of the six
 * is called by a handler that has interrupted the program's malloc(), none of them, nor what they call, uses the C
 * library's heap or its streams (os.h has an allocator that may be interrupted), or starts a thread.
 */
#ifndef VIPL_BASE_GUARD_H
#define VIPL_BASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "vipl/vipl.h"

enum vipl_call_state { VIPL_OUTSIDE, VIPL_INSIDE, VIPL_INSIDE_SAFELY };

/* Of this thread. What a handler changes here it puts back before it returns. */
struct vipl_guard {
    volatile uint32_t call_state; /* enum vipl_call_state */
    volatile uint32_t sleeps;     /* in a call that has left `call_state` for the time being */
    int cancel;                   /* whether the thread may be cancelled outside; for vipl_cancel_restore() */
};

extern _Thread_local struct vipl_guard vipl_guard VIPL_FAST_THREAD_LOCAL;

/* The six: false, the thread is inside. */
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

/* All others. Meanwhile the thread is not cancelled, but where it sleeps (wait.c). */
bool vipl_guard_enter(void);                /* false: the thread is inside */
VIP_RETURN vipl_guard_leave(VIP_RETURN rc); /* gives back what it is given, for the entry point to return */
void vipl_guard_cancelled(void);            /* the call ends because its thread does */

/* Around a sleep. */
void vipl_guard_sleep(void);
void vipl_guard_wake(void);

/* The calling function may have been called by a handler that has interrupted anything of the program's. */
static inline bool vipl_guard_is_safe_call(void)
{
    return vipl_guard.call_state == VIPL_INSIDE_SAFELY;
}

#endif
