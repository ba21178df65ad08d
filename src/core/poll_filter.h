/* SPDX-License-Identifier: MIT */
/*
 * Progress for a program that polls, without a lock while there is nothing, and without a reference on the NIC handle.
 *
 * A backend may have an object of this type for a NIC handle. Its memory is never given back (base/pool.h), and neither is that
 * of the words which it names, though they may come to mean something else: a thread that comes late reads them all the same,
 * and the worst that it learns is that it is to poll. What is read here is a hint; poll() finds out under the backend's locks.
 */
#ifndef VIPL_CORE_POLL_FILTER_H
#define VIPL_CORE_POLL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_ticks.h"

enum { VIPL_POLL_FILTER_WORDS = 4 };

struct vipl_poll_filter {
    /* Moves what can be moved, as vipl_backend.poll does, also when the NIC handle has been closed meanwhile. False: there may
     * be more to do, for which the caller needs a reference. */
    bool (*poll)(struct vipl_poll_filter *filter); /* constant */
    uint32_t
        words_plus_one; /* atomic: 1 more than the words to look at; 0: always poll. Released after them */
    uint32_t due;       /* atomic: vipl_ticks() from which on a poll is due, whatever the words say */
    uint32_t values
        [VIPL_POLL_FILTER_WORDS]; /* atomic: the value with which the word says that there is something */
    void *words[VIPL_POLL_FILTER_WORDS]; /* atomic: uint32_t */
};

/* Whether a poll would find nothing. */
static inline bool vipl_poll_filter_may_skip(struct vipl_poll_filter *filter)
{
    uint32_t words_plus_one = vipl_load_acquire(&filter->words_plus_one); /* pairs with vipl_quick_watch() */
    if (words_plus_one == 0 || vipl_ticks_reached(vipl_load_relaxed(&filter->due))) {
        return false;
    }
    for (uint32_t i = 0; i + 1 < words_plus_one; i++) {
        const uint32_t *word = (const uint32_t *)vipl_load_ptr(&filter->words[i]);
        if (vipl_load_relaxed(word) == vipl_load_relaxed(&filter->values[i])) {
            return false;
        }
    }
    return true;
}

#endif
