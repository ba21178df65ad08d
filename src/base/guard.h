/* SPDX-License-Identifier: MIT */
/*
 * The API guard. A signal handler may call the library while its thread is inside the library. Each
 * function of the API enters and leaves the guard of its thread; a function that may not run then
 * returns before it has changed anything.
 *
 * Six functions are async-signal-safe: those that post and reap, and VipQueryVi(). They are refused
 * while the thread runs in the library, but not while it sleeps there, because a sleeping thread
 * holds no lock. All other functions are refused during a sleep too, since they may have to wait
 * for the call that sleeps. A handler that has interrupted the program's malloc() may call one of
 * the six, and the library cannot find that out. Therefore the six functions, and all functions
 * that they call, do not use the C library's heap or streams (os.h has an allocator that may be
 * interrupted), and start no thread.
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
    /* a call sleeps, and call_state is VIPL_OUTSIDE until it wakes up */
    volatile uint32_t sleeps;
    int cancel; /* the thread's own setting, for vipl_cancel_restore() */
};

extern _Thread_local struct vipl_guard vipl_guard VIPL_FAST_THREAD_LOCAL;

/* Enters the guard for an async-signal-safe function. False: the thread is inside the library. */
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

/* Enters the guard for any other function. False: the thread is inside the library, or sleeps
 * there. Until vipl_guard_leave() the thread can be cancelled only where it sleeps (wait.c). */
bool vipl_guard_enter(void);
/* Leaves the guard. Returns `rc`, for the entry point to return. */
VIP_RETURN vipl_guard_leave(VIP_RETURN rc);
/* Leaves the guard because the thread is cancelled in its sleep. */
void vipl_guard_cancelled(void);

/* Called before and after a sleep. */
void vipl_guard_sleep(void);
void vipl_guard_wake(void);

/* Returns true inside an async-signal-safe function, which a signal handler may have called after
 * it has interrupted any code of the program. */
static inline bool vipl_guard_is_safe_call(void)
{
    return vipl_guard.call_state == VIPL_INSIDE_SAFELY;
}

#endif
