/* SPDX-License-Identifier: MIT */
/*
 * The library's only lock: one 32-bit word that sleeps in the kernel when contended, valid in zeroed memory, two
 * atomic operations when not contended. In debug builds each lock has a rank and a thread may only take locks of
 * ascending rank (base/lock_rank.h).
 *
 * Word: 0 free, 1 held, 2 held and there may be sleeping threads.
 */
#ifndef VIPL_OS_MUTEX_H
#define VIPL_OS_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "os_atomic.h"

struct vipl_mutex {
    uint32_t word;
    uint32_t rank; /* constant after init */
};

void vipl_mutex_lock_slow(struct vipl_mutex *m);
void vipl_mutex_unlock_slow(struct vipl_mutex *m);
void vipl_rank_push(uint32_t rank, bool ordered); /* debug builds: aborts on a wrong order */
void vipl_rank_pop(uint32_t rank);
bool vipl_rank_held(uint32_t rank);
void vipl_rank_forget(void); /* this thread holds none: it has become a forked child */

static inline void vipl_mutex_init(struct vipl_mutex *m, uint32_t rank)
{
    m->word = 0;
    m->rank = rank;
}

static inline void vipl_mutex_lock(struct vipl_mutex *m)
{
#ifndef NDEBUG
    vipl_rank_push(m->rank, true);
#endif
    if (!vipl_compare_exchange(&m->word, 0, 1)) {
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

static inline void vipl_mutex_unlock(struct vipl_mutex *m)
{
#ifndef NDEBUG
    vipl_rank_pop(m->rank);
#endif
    if (vipl_exchange(&m->word, 0) == 2) {
        vipl_mutex_unlock_slow(m);
    }
}

/* For assertions: some thread holds it. */
static inline bool vipl_mutex_is_held(struct vipl_mutex *m)
{
    return vipl_load_relaxed(&m->word) != 0;
}

#endif
