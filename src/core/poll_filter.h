/* SPDX-License-Identifier: MIT */
/*
 * A lock-free poll filter. A backend publishes up to four (word, value) pairs of a NIC handle.
 * While no word has its value, a poll cannot find anything, and the caller skips poll().
 *
 * Readers hold no reference on the NIC handle, so the struct and the words are type-stable memory:
 * neither is ever given back (base/pool.h), though the words may come to mean something else. A
 * stale read costs at most one extra poll(), which looks under the backend's locks.
 */
#ifndef VIPL_CORE_POLL_FILTER_H
#define VIPL_CORE_POLL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_ticks.h"

enum { VIPL_POLL_FILTER_WORDS = 4 };

struct vipl_poll_filter {
    /* constant: polls as vipl_backend.poll() does, also if the NIC handle has been closed
     * meanwhile. Returns false if there may be more to do, for which the caller needs a
     * reference. */
    bool (*poll)(struct vipl_poll_filter *filter);
    /* atomic: 1 + the number of pairs in use; 0: always poll. Stored with release after the
     * pairs. */
    uint32_t words_plus_one;
    /* atomic: the vipl_ticks() from which on the caller polls, whatever the words contain. */
    uint32_t due;
    /* atomic: the value that a word has when a poll may find something. */
    uint32_t values[VIPL_POLL_FILTER_WORDS];
    void *words[VIPL_POLL_FILTER_WORDS]; /* atomic: pointers to uint32_t */
};

/* Returns true if a poll would find nothing. */
static inline bool vipl_poll_filter_may_skip(struct vipl_poll_filter *filter)
{
    /* The acquire load pairs with the release store of the backend that publishes the pairs. */
    uint32_t words_plus_one = vipl_load_acquire(&filter->words_plus_one);
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
