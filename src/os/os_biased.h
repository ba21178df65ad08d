/* SPDX-License-Identifier: MIT */
/*
 * A biased mutex: a lock for the data path, which mostly one thread takes. It is an ordinary mutex
 * (os_mutex.h) until biasing is allowed (vipl_biased_allow()). From then on the first data-path
 * thread that takes it becomes its owner.
 *
 * The owner enters without an atomic operation: it stores inside = self and then checks `owner`
 * again. Any other thread that wants the lock takes the mutex and revokes the bias
 * (vipl_biased_end()): it clears `owner`, has the system make a barrier in all threads
 * (vipl_barrier_everywhere()), and waits until `inside` is 0. With that barrier, either the owner
 * sees that it has lost the bias, or the other thread sees the owner inside.
 *
 * A revoked lock is never biased again: a late store of the old owner to `inside` could be mistaken
 * for one of a new owner.
 *
 * Where the system cannot make such barriers, no lock gets an owner.
 */
#ifndef VIPL_OS_BIASED_H
#define VIPL_OS_BIASED_H

#include "os/os.h"
#include "os/os_mutex.h"

struct vipl_biased {
    struct vipl_mutex m;
    /* atomic: VIPL_BIASED_..., or the thread number of the owner. Written under `m`; the owner's
     * check of this word pairs with its store to `inside`. */
    uint32_t owner;
    /* atomic: the owner's thread number while the owner holds the lock or checks whether it may;
     * else 0 */
    VIPL_FUTEX_WORD uint32_t inside;
};

enum {
    VIPL_BIASED_NOT = 0,     /* biasing is not allowed yet */
    VIPL_BIASED_ALLOWED = 1, /* the next thread that takes the lock to own it becomes the owner */
    VIPL_BIASED_OVER = 2,    /* the bias was revoked, for good */
    VIPL_BIASED_NUMBERS = 4  /* the smallest thread number; a power of two */
};

/* The number under which this thread owns locks. UINT32_MAX: it has not become an owner yet. */
extern _Thread_local uint32_t vipl_thread_number VIPL_FAST_THREAD_LOCAL;

/* Revokes the bias. The caller holds `m`, and another thread owns the lock or has just owned it.
 * Returns true once the former owner is outside: the caller holds the lock. Returns false if the
 * owner is inside and `wait` is false: `m` has been given back. */
bool vipl_biased_end(struct vipl_biased *b, bool wait);
/* Makes the calling thread the owner, if biasing is allowed and the lock has had no owner. The
 * caller holds the lock; the bias counts from the time at which the caller gives the lock back. */
void vipl_biased_own(struct vipl_biased *b);
/* vipl_biased_lock() and vipl_biased_trylock(), each followed by vipl_biased_own() on success: the
 * slow paths of vipl_biased_lock_own() and vipl_biased_trylock_own(). */
void vipl_biased_lock_and_own(struct vipl_biased *b);
bool vipl_biased_trylock_and_own(struct vipl_biased *b);

static inline void vipl_biased_init(struct vipl_biased *b, uint32_t rank)
{
    vipl_mutex_init(&b->m, rank);
    b->owner = VIPL_BIASED_NOT;
    b->inside = 0;
}

/* Allows biasing from now on, unless the lock has had an owner already or the system makes no
 * barriers. The caller holds the lock, or is the only thread that knows it. */
static inline void vipl_biased_allow(struct vipl_biased *b)
{
    if (vipl_load_relaxed(&b->owner) == VIPL_BIASED_NOT &&
        vipl_load_relaxed(&vipl_sleepers_make_barriers) != 0) {
        vipl_store_relaxed(&b->owner, VIPL_BIASED_ALLOWED);
    }
}

/* --- the owner's path --- */

/* vipl_biased_enter() without the check of the lock order. */
static inline __attribute__((always_inline)) bool vipl_biased_is_entered(struct vipl_biased *b)
{
    uint32_t self = vipl_thread_number;
    if (vipl_load_relaxed(&b->owner) != self) {
        return false;
    }
    /* before the check of `owner`: pairs with vipl_biased_end() */
    vipl_store_relaxed(&b->inside, self);
    vipl_signal_fence();
    bool owned = vipl_load_relaxed(&b->owner) == self;
    if (VIPL_UNLIKELY(!owned)) {
        vipl_store_release(&b->inside, 0);
    }
    vipl_signal_fence();
    return owned;
}

/* Takes the lock if the calling thread is the owner. Returns false, without effect, if it is not.
 * On true, no other thread has held the lock since this thread became the owner: data that is
 * written only under the lock is as this thread left it. */
static inline __attribute__((always_inline)) bool vipl_biased_enter(struct vipl_biased *b)
{
    bool entered = vipl_biased_is_entered(b);
#ifndef NDEBUG
    if (entered) {
        vipl_rank_push(b->m.rank, true);
    }
#endif
    return entered;
}

/* Gives back a lock that was taken by vipl_biased_enter(). */
static inline __attribute__((always_inline)) void vipl_biased_leave(struct vipl_biased *b)
{
#ifndef NDEBUG
    vipl_rank_pop(b->m.rank);
#endif
    vipl_store_release(&b->inside, 0); /* pairs with vipl_biased_end() */
}

/* --- any thread --- */

/* Returns whether the lock has an owner, or a former owner that is still inside. On false, the
 * caller sees what the last owner did under the lock. */
static inline bool vipl_biased_has_owner(const struct vipl_biased *b)
{
    return (vipl_load_relaxed(&b->owner) / VIPL_BIASED_NUMBERS | vipl_load_acquire(&b->inside)) !=
           0; /* pairs with vipl_biased_leave() */
}

static inline void vipl_biased_lock(struct vipl_biased *b)
{
    if (!vipl_biased_enter(b)) {
        vipl_mutex_lock(&b->m);
        if (VIPL_UNLIKELY(vipl_biased_has_owner(b))) {
            vipl_biased_end(b, true);
        }
    }
}

static inline bool vipl_biased_trylock(struct vipl_biased *b)
{
    return vipl_biased_enter(b) ||
           (vipl_mutex_trylock(&b->m) && (!vipl_biased_has_owner(b) || vipl_biased_end(b, false)));
}

/* vipl_biased_lock() and vipl_biased_trylock() for the data path: where biasing is allowed, the
 * first thread that takes the lock by one of these two becomes the owner. */
static inline __attribute__((always_inline)) void vipl_biased_lock_own(struct vipl_biased *b)
{
    if (!vipl_biased_enter(b)) {
        vipl_biased_lock_and_own(b);
    }
}

static inline __attribute__((always_inline)) bool vipl_biased_trylock_own(struct vipl_biased *b)
{
    return vipl_biased_enter(b) || vipl_biased_trylock_and_own(b);
}

static inline __attribute__((always_inline)) void vipl_biased_unlock(struct vipl_biased *b)
{
    if (vipl_load_relaxed(&b->inside) == vipl_thread_number) {
        vipl_biased_leave(b);
    } else {
        vipl_mutex_unlock(&b->m);
    }
}

/* Waits until every thread that held the lock before this call has given it back. `seen`: all
 * threads have made a barrier meanwhile, so that checking the two words is enough if the lock is
 * free. */
static inline void vipl_biased_pass(struct vipl_biased *b, bool seen)
{
    if (!seen || vipl_mutex_is_taken(&b->m) ||
        vipl_load_acquire(&b->inside) != 0) { /* pairs with vipl_biased_leave() */
        vipl_biased_lock(b);
        vipl_biased_unlock(b);
    }
}

/* For assertions: whether some thread holds the lock. */
static inline bool vipl_biased_is_held(struct vipl_biased *b)
{
    return vipl_mutex_is_held(&b->m) || vipl_load_relaxed(&b->inside) != 0;
}

#endif
