/* SPDX-License-Identifier: MIT */
#include "base/deferred.h"

_Thread_local struct vipl_deferred *vipl_deferred_first;
_Thread_local struct vipl_deferred *vipl_deferred_last;

void vipl_deferred_run_all(void)
{
    int cancel = vipl_cancel_off(); /* the caller may be a post, which does not disable it */
    struct vipl_deferred *work;
    while ((work = vipl_deferred_first) != NULL) {
        vipl_deferred_first = work->next;
        work->run(work);
    }
    vipl_cancel_restore(cancel);
}
