/* SPDX-License-Identifier: MIT */
/* Visits of threads to the library. */
#include "base/guard.h"

_Thread_local struct vipl_here vipl_here;

bool vipl_enter(void)
{
    if (vipl_here.place != VIPL_OUTSIDE || vipl_here.sleeps != 0) {
        return false;
    }
    vipl_here.place = VIPL_INSIDE;
    vipl_signal_fence();
    vipl_here.cancel = vipl_cancel_off();
    return true;
}

void vipl_leave(const bool *entered)
{
    if (*entered) {
        vipl_cancel_restore(vipl_here.cancel);
        vipl_signal_fence();
        vipl_here.place = VIPL_OUTSIDE;
    }
}

void vipl_leave_cancelled(void)
{
    vipl_signal_fence();
    vipl_here.place = VIPL_OUTSIDE; /* the program's own clean-up may call */
}

void vipl_doze(void)
{
    vipl_here.sleeps = 1; /* first: it is either inside or asleep */
    vipl_signal_fence();
    vipl_here.place = VIPL_OUTSIDE;
}

void vipl_wake_up(void)
{
    vipl_here.place = VIPL_INSIDE;
    vipl_signal_fence();
    vipl_here.sleeps = 0;
}
