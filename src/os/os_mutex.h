/* SPDX-License-Identifier: MIT */
/*
 * The library's only lock, valid in zeroed memory. Threads that contend for it sleep in the kernel.
 * A lock that is not contended costs one atomic operation, when it is taken. In debug builds each
 * lock has a rank, and a thread may only take locks of ascending rank (base/lock_rank.h).
 *
 * Unlocking is a plain store followed by a load of the number of sleepers. The load must not move
 * before the store, which needs a barrier. The thread that is about to sleep therefore has the
 * system make that barrier in all other threads (vipl_barrier_everywhere()). Where the system
 * cannot, unlocking is an atomic operation too.
 */
#ifndef VIPL_OS_MUTEX_H
#define VIPL_OS_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_compiler.h"

struct vipl_mutex {
    VIPL_FUTEX_WORD uint32_t word; /* atomic: 0 free, 1 held */
    /* atomic: the threads that sleep for the lock, or are about to */
    uint32_t sleepers;
    uint32_t rank; /* constant after init */
};

#define VIPL_MUTEX_INIT(its_rank) \
    { \
        .rank = (its_rank) \
    }

/* atomic: 1 if a thread that is about to sleep for a lock makes the barrier in the thread that
 * unlocks it. Set once, by vipl_barrier_prepare(). */
extern uint32_t vipl_sleepers_make_barriers;

void vipl_mutex_lock_slow(struct vipl_mutex *m);
void vipl_mutex_unlock_slow(struct vipl_mutex *m);
/* Returns true in a forked child that has one thread: a thread that waits for a lock there waits
 * for one that its parent's other threads held at the fork, and that nobody gives back. A signal
 * handler has then forked in a call that blocks: the call ends in the child (docs/use/fork.md). */
bool vipl_owners_are_gone(void);
/* Ranks of the operating system layer's own locks: its functions may be called with any lock of
 * base/lock_rank.h held, and the heap's with all others. */
enum { VIPL_RANK_OS_SHM = 62, VIPL_RANK_OS_HEAP = 63 };

/* Debug builds only: note that the calling thread takes and gives back a lock of that rank.
 * vipl_rank_push() aborts if the thread holds this rank or, if `ordered`, a higher one. */
void vipl_rank_push(uint32_t rank, bool ordered);
void vipl_rank_pop(uint32_t rank);
/* The thread has become a forked child: it holds no lock. */
void vipl_rank_forget(void);

/* For assertions. Both return true for a rank that the thread may have held before
 * vipl_rank_forget(): a signal handler has forked, and the call that the handler interrupted goes
 * on in the child. */
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

/* Gives the lock back. Returns false if threads sleep for it: the caller then has to call
 * vipl_mutex_unlock_slow(), which wakes one. */
static inline __attribute__((always_inline)) bool vipl_mutex_give_back(struct vipl_mutex *m)
{
#ifndef NDEBUG
    vipl_rank_pop(m->rank);
#endif
    if (VIPL_LIKELY(vipl_load_relaxed(&vipl_sleepers_make_barriers) != 0)) {
        /* before the load of sleepers: pairs with vipl_mutex_lock_slow() */
        vipl_store_release(&m->word, 0);
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

/* Returns whether some thread holds the lock. On false, the caller sees all
 * that was done under it. */
static inline bool vipl_mutex_is_taken(const struct vipl_mutex *m)
{
    return vipl_load_acquire(&m->word) != 0; /* pairs with vipl_mutex_unlock() */
}

/* For assertions: whether some thread holds the lock. */
static inline bool vipl_mutex_is_held(struct vipl_mutex *m)
{
    return vipl_load_relaxed(&m->word) != 0;
}

#endif
