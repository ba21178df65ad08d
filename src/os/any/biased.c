/* SPDX-License-Identifier: MIT */
/* Biased mutexes: becoming the owner, and revoking the bias. */
#include "os/os_biased.h"

enum { SPINS = 64, PAUSE_MS = 1 };

_Thread_local uint32_t vipl_thread_number = UINT32_MAX;

/* Gives this thread a number, if it has none. Returns false if all numbers are used up. */
static bool number_thread(void)
{
    static uint32_t next = VIPL_BIASED_NUMBERS; /* atomic */
    uint32_t number = vipl_load_relaxed(&next);
    while (vipl_thread_number == UINT32_MAX && number < UINT32_MAX) {
        if (vipl_compare_exchange(&next, number, number + 1)) {
            vipl_thread_number = number;
        }
        number = vipl_load_relaxed(&next);
    }
    return vipl_thread_number != UINT32_MAX;
}

void vipl_biased_own(struct vipl_biased *b)
{
    if (vipl_load_relaxed(&b->owner) == VIPL_BIASED_ALLOWED && number_thread()) {
        vipl_store_relaxed(&b->owner, vipl_thread_number);
    }
}

VIPL_NOINLINE void vipl_biased_lock_and_own(struct vipl_biased *b)
{
    vipl_biased_lock(b);
    vipl_biased_own(b);
}

VIPL_NOINLINE bool vipl_biased_trylock_and_own(struct vipl_biased *b)
{
    bool taken = vipl_biased_trylock(b);
    if (taken) {
        vipl_biased_own(b);
    }
    return taken;
}

/* Makes a barrier in all threads. Where the program has meanwhile forbidden the system call, a
 * pause serves as the barrier: no processor keeps a store back for a millisecond. */
static void make_barrier(void)
{
    VIPL_FUTEX_WORD uint32_t none = 0;
    if (!vipl_barrier_everywhere()) {
        vipl_futex_wait_for(&none, 0, PAUSE_MS);
    }
}

/* Returns the thread number of the owner that is inside, or 0. Pairs with vipl_biased_leave(). */
static uint32_t owner_inside(const struct vipl_biased *b)
{
    return vipl_load_acquire(&b->inside);
}

/* Waits until the owner is outside. The owner does not know of waiters, so that this polls. */
static void wait_for_owner(struct vipl_biased *b)
{
    uint32_t who;
    for (int i = 0; i < SPINS && owner_inside(b) != 0; i++) {
    }
    while ((who = owner_inside(b)) != 0) {
        if (vipl_futex_wait_for(&b->inside, who, PAUSE_MS) != 0 && vipl_owners_are_gone()) {
            vipl_store_relaxed(&b->inside, 0);
        }
    }
}

VIPL_COLD bool vipl_biased_end(struct vipl_biased *b, bool wait)
{
    if (vipl_load_relaxed(&b->owner) >= VIPL_BIASED_NUMBERS) {
        /* before reading `inside`: pairs with vipl_biased_enter() */
        vipl_store_relaxed(&b->owner, VIPL_BIASED_OVER);
        make_barrier();
    }
    if (wait) {
        wait_for_owner(b);
    } else if (owner_inside(b) != 0) {
        vipl_mutex_unlock(&b->m);
        return false;
    }
    return true;
}
