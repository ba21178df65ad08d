/* SPDX-License-Identifier: MIT */
/*
 * Progress for a program that polls, without a lock while there is nothing, and without a reference on the NIC handle.
 *
 * A backend may have an object of this type for a NIC handle. Its memory is never given back (base/pool.h), and neither is that
 * of the words which it names, though they may come to mean something else: a thread that comes late reads them all the same,
 * and the worst that it learns is that it is to poll. What is read here is a hint; poll() finds out under the backend's locks.
 */
#ifndef VIPL_CORE_QUICK_H
#define VIPL_CORE_QUICK_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_ticks.h"

enum { VIPL_QUICK_WORDS = 4 };

struct vipl_quick {
    /* Moves what can be moved, as vipl_backend.poll does, also when the NIC handle has been closed meanwhile. False: there may
     * be more to do, for which the caller needs a reference. */
    bool (*poll)(struct vipl_quick *quick); /* constant */
    uint32_t watched; /* atomic: 1 more than the words to look at; 0: always poll. Released after them */
    uint32_t due;     /* atomic: vipl_ticks() from which on a poll is due, whatever the words say */
    uint32_t
        values[VIPL_QUICK_WORDS];  /* atomic: the value with which the word says that there is something */
    void *words[VIPL_QUICK_WORDS]; /* atomic: uint32_t */
};

/* Whether a poll would find nothing. */
static inline bool vipl_quick_is_quiet(struct vipl_quick *quick)
{
    uint32_t watched = vipl_load_acquire(&quick->watched); /* pairs with vipl_quick_watch() */
    if (watched == 0 || vipl_ticks_reached(vipl_load_relaxed(&quick->due))) {
        return false;
    }
    for (uint32_t i = 0; i + 1 < watched; i++) {
        const uint32_t *word = (const uint32_t *)vipl_load_ptr(&quick->words[i]);
        if (vipl_load_relaxed(word) == vipl_load_relaxed(&quick->values[i])) {
            return false;
        }
    }
    return true;
}

#endif
