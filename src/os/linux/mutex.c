/* SPDX-License-Identifier: MIT */
/* The contended paths of the lock. */
#include "os/os.h"
#include "os/os_mutex.h"

void vipl_mutex_lock_slow(struct vipl_mutex *m)
{
    /* A short spin first: threads rarely hold a lock longer than a few hundred cycles. */
    for (int i = 0; i < 64; i++) {
        if (vipl_load_relaxed(&m->word) == 0 && vipl_compare_exchange(&m->word, 0, 1)) {
            return;
        }
    }
    while (vipl_exchange(&m->word, 2) != 0) {
        vipl_futex_wait(&m->word, 2);
    }
}

void vipl_mutex_unlock_slow(struct vipl_mutex *m)
{
    vipl_futex_wake_one(&m->word);
}
