/* SPDX-License-Identifier: MIT */
/*
 * A lock that favours one thread: what each message needs, and mostly one thread alone. It is like any other (os_mutex.h) until it
 * may have an owner (vipl_biased_allow()). Then the first thread that takes it on the path of messages is its owner, and from
 * then on takes it without an atomic operation: it says that it is inside, and looks whether it still is the owner. Another thread takes the lock,
 * ends that, has the system make a barrier in all threads (os.h, vipl_barrier_everywhere()), and waits until the owner is outside:
 * either the owner has seen the end of it, or the other thread sees the owner inside. Then the lock is like any other, for good: a
 * thread that was its owner may be about to say that it is inside, and would take back what a later owner has said.
 *
 * Where the system makes no barriers a lock has no owner.
 */
#ifndef VIPL_OS_BIASED_H
#define VIPL_OS_BIASED_H

#include "os/os.h"
#include "os/os_mutex.h"

struct vipl_biased {
    struct vipl_mutex m;
    uint32_t
        owner; /* atomic: VIPL_BIASED_..., or the number of its owner; written by who has it. Pairs with `inside` */
    VIPL_FUTEX_WORD uint32_t
        inside; /* atomic: the number of an owner that has it, or is about to look whether it may; else 0 */
};

enum {
    VIPL_BIASED_NOT = 0,     /* it has no owner yet */
    VIPL_BIASED_ALLOWED = 1, /* it may get one */
    VIPL_BIASED_OVER = 2,    /* it has had one */
    VIPL_BIASED_NUMBERS = 4  /* threads' numbers from here on: a power of two */
};

/* This thread's, as the owner of locks; UINT32_MAX: it has owned none. */
extern _Thread_local uint32_t vipl_thread_number VIPL_FAST_THREAD_LOCAL;

/* The thread has `m`, and another one owns the lock, or did a moment ago: it does not any more. False: it is inside; with `wait`
 * that is waited for. */
bool vipl_biased_end(struct vipl_biased *b, bool wait);
/* The caller has the lock: if that may have an owner, it is this thread, once it gives the lock back. */
void vipl_biased_own(struct vipl_biased *b);
/* As vipl_biased_lock() and vipl_biased_trylock(); if the lock may have an owner, it is this thread, once it gives the lock back. */
void vipl_biased_lock_and_own(struct vipl_biased *b);
bool vipl_biased_trylock_and_own(struct vipl_biased *b);

static inline void vipl_biased_init(struct vipl_biased *b, uint32_t rank)
{
    vipl_mutex_init(&b->m, rank);
    b->owner = VIPL_BIASED_NOT;
    b->inside = 0;
}

/* It may have an owner from now on, if it has not had one. The caller has it. */
static inline void vipl_biased_allow(struct vipl_biased *b)
{
    if (vipl_load_relaxed(&b->owner) == VIPL_BIASED_NOT &&
        vipl_load_relaxed(&vipl_sleepers_make_barriers) != 0) {
        vipl_store_relaxed(&b->owner, VIPL_BIASED_ALLOWED);
    }
}

/* --- as its owner --- */

static inline __attribute__((always_inline)) bool vipl_biased_is_entered(struct vipl_biased *b)
{
    uint32_t self = vipl_thread_number;
    if (vipl_load_relaxed(&b->owner) != self) {
        return false;
    }
    vipl_store_relaxed(&b->inside, self); /* then the look: pairs with vipl_biased_end() */
    vipl_signal_fence();
    bool owned = vipl_load_relaxed(&b->owner) == self;
    if (VIPL_UNLIKELY(!owned)) {
        vipl_store_release(&b->inside, 0);
    }
    vipl_signal_fence();
    return owned;
}

/* False: this thread is not the owner, and nothing has happened. True: no other thread has had the lock since this one became its
 * owner, so what is written under it alone is as this thread left it. */
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

/* Gives back what was entered. */
static inline __attribute__((always_inline)) void vipl_biased_leave(struct vipl_biased *b)
{
#ifndef NDEBUG
    vipl_rank_pop(b->m.rank);
#endif
    vipl_store_release(&b->inside, 0); /* pairs with vipl_biased_end() */
}

/* --- by any thread --- */

/* If not, what the last owner did in it is seen: it may have been inside when another thread ended that it was. */
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

/* On the path of messages: the first thread that comes becomes the owner. */
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

/* Waits for a thread that has taken the lock before this call. `seen`: since then all threads have made a barrier, so that a look is
 * enough. */
static inline void vipl_biased_pass(struct vipl_biased *b, bool seen)
{
    if (!seen || vipl_mutex_is_taken(&b->m) ||
        vipl_load_acquire(&b->inside) != 0) { /* pairs with vipl_biased_leave() */
        vipl_biased_lock(b);
        vipl_biased_unlock(b);
    }
}

/* For assertions: some thread has it. */
static inline bool vipl_biased_is_held(struct vipl_biased *b)
{
    return vipl_mutex_is_held(&b->m) || vipl_load_relaxed(&b->inside) != 0;
}

#endif
