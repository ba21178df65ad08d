/* SPDX-License-Identifier: MIT */
/* The contended paths of the mutex. */
#include "os/os.h"
#include "os/os_mutex.h"

enum {
    SPINS = 64, /* threads rarely hold a lock longer than a few hundred cycles */
    /* after which a sleeper looks whether it waits for nobody; a wait with a limit also ends when a
     * signal handler has run */
    LOOK_MS = 100
};

uint32_t vipl_sleepers_make_barriers;

bool vipl_owners_are_gone(void)
{
    return vipl_fork_generation() != 1 && vipl_is_only_thread();
}

VIPL_COLD void vipl_mutex_lock_slow(struct vipl_mutex *m)
{
    for (int i = 0; i < SPINS; i++) {
        if (vipl_load_relaxed(&m->word) == 0 && vipl_compare_exchange(&m->word, 0, 1)) {
            return;
        }
    }
    /* before the word is read again; pairs with vipl_mutex_unlock() */
    vipl_fetch_add(&m->sleepers, 1);
    vipl_barrier_everywhere();
    while (!vipl_compare_exchange(&m->word, 0, 1)) {
        if (vipl_futex_wait_for(&m->word, 1, LOOK_MS) != 0 && vipl_owners_are_gone()) {
            vipl_store_relaxed(&m->word, 1);
            break;
        }
    }
    vipl_fetch_add(&m->sleepers, (uint32_t)-1);
}

VIPL_COLD void vipl_mutex_unlock_slow(struct vipl_mutex *m)
{
    vipl_futex_wake_one(&m->word);
}
