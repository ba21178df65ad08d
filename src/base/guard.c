/* SPDX-License-Identifier: MIT */
/* The API guard: whether a thread is inside the library. */
#include "base/guard.h"

_Thread_local struct vipl_guard vipl_guard;

bool vipl_guard_enter(void)
{
    if (vipl_guard.call_state != VIPL_OUTSIDE || vipl_guard.sleeps != 0) {
        return false;
    }
    vipl_guard.call_state = VIPL_INSIDE;
    vipl_signal_fence();
    vipl_guard.cancel = vipl_cancel_off();
    return true;
}

VIP_RETURN vipl_guard_leave(VIP_RETURN rc)
{
    vipl_cancel_restore(vipl_guard.cancel);
    vipl_signal_fence();
    vipl_guard.call_state = VIPL_OUTSIDE;
    return rc;
}

void vipl_guard_cancelled(void)
{
    vipl_signal_fence();
    /* the program's clean-up functions may call the library */
    vipl_guard.call_state = VIPL_OUTSIDE;
}

void vipl_guard_sleep(void)
{
    vipl_guard.sleeps = 1; /* first, so that the thread is always either inside or asleep */
    vipl_signal_fence();
    vipl_guard.call_state = VIPL_OUTSIDE;
}

void vipl_guard_wake(void)
{
    vipl_guard.call_state = VIPL_INSIDE;
    vipl_signal_fence();
    vipl_guard.sleeps = 0;
}
