/* SPDX-License-Identifier: MIT */
/*
 * The library's only lock: a word that sleeps in the kernel when contended, valid in zeroed memory. When not contended it
 * costs one atomic operation, at its taking. In debug builds each lock has a rank and a thread may only take locks of
 * ascending rank (base/lock_rank.h).
 *
 * Giving it back is a plain store and a look for sleepers. The look must not come before the store, which a processor only
 * promises after a barrier; so a thread that is about to sleep has the system make that barrier in all other threads
 * (os.h, vipl_barrier_everywhere()). Where the system cannot, giving back is an atomic operation too.
 */
#ifndef VIPL_OS_MUTEX_H
#define VIPL_OS_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "os_atomic.h"
#include "os_compiler.h"

struct vipl_mutex {
    VIPL_FUTEX_WORD uint32_t word; /* atomic: 0 free, 1 held */
    uint32_t sleepers;             /* atomic: threads that sleep for it, or are about to */
    uint32_t rank;                 /* constant after init */
};

#define VIPL_MUTEX_INIT(its_rank) \
    { \
        .rank = (its_rank) \
    }

/* atomic: a thread that is about to sleep for a lock makes the barrier of those that give it back. Set once, by os/. */
extern uint32_t vipl_sleepers_make_barriers;

void vipl_mutex_lock_slow(struct vipl_mutex *m);
void vipl_mutex_unlock_slow(struct vipl_mutex *m);
void vipl_rank_push(uint32_t rank, bool ordered); /* debug builds: aborts on a wrong order */
void vipl_rank_pop(uint32_t rank);
void vipl_rank_forget(void); /* this thread holds none: it has become a forked child */

/* Both are true of a rank that the thread may have held before vipl_rank_forget(): a signal handler has forked, and the
 * call that the handler interrupted goes on in the child. */
bool vipl_rank_held(uint32_t rank);
bool vipl_rank_not_held(uint32_t rank);

static inline void vipl_mutex_init(struct vipl_mutex *m, uint32_t rank)
{
    m->word = 0;
    m->sleepers = 0;
    m->rank = rank;
}

static inline __attribute__((always_inline)) void vipl_mutex_lock(struct vipl_mutex *m)
{
#ifndef NDEBUG
    vipl_rank_push(m->rank, true);
#endif
    if (VIPL_UNLIKELY(!vipl_compare_exchange(&m->word, 0, 1))) {
        vipl_mutex_lock_slow(m);
    }
}

static inline bool vipl_mutex_trylock(struct vipl_mutex *m)
{
    if (!vipl_compare_exchange(&m->word, 0, 1)) {
        return false;
    }
#ifndef NDEBUG
    vipl_rank_push(m->rank, false);
#endif
    return true;
}

/* Gives it back. False: threads sleep for it, and the caller has to call vipl_mutex_unlock_slow(). */
static inline __attribute__((always_inline)) bool vipl_mutex_give_back(struct vipl_mutex *m)
{
#ifndef NDEBUG
    vipl_rank_pop(m->rank);
#endif
    if (VIPL_LIKELY(vipl_load_relaxed(&vipl_sleepers_make_barriers) != 0)) {
        vipl_store_release(&m->word, 0); /* then the look: pairs with vipl_mutex_lock_slow() */
        vipl_signal_fence();
    } else {
        vipl_exchange(&m->word, 0);
    }
    return VIPL_LIKELY(vipl_load_relaxed(&m->sleepers) == 0);
}

static inline __attribute__((always_inline)) void vipl_mutex_unlock(struct vipl_mutex *m)
{
    if (!vipl_mutex_give_back(m)) {
        vipl_mutex_unlock_slow(m);
    }
}

/* Whether some thread has it. If not, what the last one did under it is seen. */
static inline bool vipl_mutex_is_taken(const struct vipl_mutex *m)
{
    return vipl_load_acquire(&m->word) != 0; /* pairs with vipl_mutex_unlock() */
}

/* For assertions: some thread holds it. */
static inline bool vipl_mutex_is_held(struct vipl_mutex *m)
{
    return vipl_load_relaxed(&m->word) != 0;
}

#endif
