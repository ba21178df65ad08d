/* SPDX-License-Identifier: MIT */
/*
 * The table of sends that the hook keeps back. Every operation reads its few entries from the first to the last. A
 * plan without `delay` and a device that is never full leave the table empty, and then its lock is not taken.
 */
#include "hook/delay.h"

#include <stddef.h>
#include <string.h>

#include "base/lock_rank.h"

void vipl_delays_init(struct vipl_delays *delays)
{
    memset(delays, 0, sizeof(*delays));
    vipl_mutex_init(&delays->lock, VIPL_RANK_BACKEND_TX);
}

static struct vipl_delay *entry_of_locked(struct vipl_delays *delays, const struct vipl_vi *vi)
{
    for (unsigned i = 0; i < VIPL_DELAYS; i++) {
        if (delays->entries[i].vi == vi) {
            return &delays->entries[i];
        }
    }
    return NULL;
}

static void add(uint32_t *counter, uint32_t change)
{
    vipl_store_relaxed(counter, *counter + change); /* one writer at a time: the lock is held */
}

static void free_locked(struct vipl_delays *delays, struct vipl_delay *entry)
{
    add(&delays->waiting, entry->polls > 0 ? (uint32_t)-1 : 0);
    add(&delays->used, (uint32_t)-1);
    entry->vi = NULL;
}

/* An entry of this VI can only have been made under the send lock that the caller holds too: what
 * `used` says about it is not stale. */
uint32_t vipl_delays_find(struct vipl_delays *delays, const struct vipl_vi *vi, uint32_t sequence,
                          uint32_t *polls)
{
    uint32_t number = 0;
    if (vipl_load_relaxed(&delays->used) == 0) {
        return 0;
    }
    vipl_mutex_lock(&delays->lock);
    struct vipl_delay *entry = entry_of_locked(delays, vi);
    if (entry != NULL && entry->sequence == sequence) {
        number = entry->number;
        *polls = entry->polls;
    }
    vipl_mutex_unlock(&delays->lock);
    return number;
}

bool vipl_delays_hold(struct vipl_delays *delays, struct vipl_vi *vi, uint32_t sequence, uint32_t number,
                      uint32_t polls)
{
    vipl_mutex_lock(&delays->lock);
    struct vipl_delay *entry = entry_of_locked(delays, vi);
    if (entry != NULL) {
        free_locked(delays, entry); /* of a send that was flushed */
    }
    entry = entry_of_locked(delays, NULL);
    if (entry != NULL) {
        *entry = (struct vipl_delay){.vi = vi, .sequence = sequence, .number = number, .polls = polls};
        add(&delays->used, 1);
        add(&delays->waiting, polls > 0 ? 1 : 0);
    }
    vipl_mutex_unlock(&delays->lock);
    return entry != NULL;
}

void vipl_delays_drop(struct vipl_delays *delays, const struct vipl_vi *vi)
{
    if (vipl_load_relaxed(&delays->used) == 0) {
        return;
    }
    vipl_mutex_lock(&delays->lock);
    struct vipl_delay *entry = entry_of_locked(delays, vi);
    if (entry != NULL) {
        free_locked(delays, entry);
    }
    vipl_mutex_unlock(&delays->lock);
}

unsigned vipl_delays_polled(struct vipl_delays *delays, struct vipl_vi *due[VIPL_DELAYS])
{
    unsigned count = 0;
    vipl_mutex_lock(&delays->lock);
    for (unsigned i = 0; i < VIPL_DELAYS; i++) {
        struct vipl_delay *entry = &delays->entries[i];
        if (entry->vi != NULL && entry->polls > 0 && --entry->polls == 0) {
            due[count++] = entry->vi;
            add(&delays->waiting, (uint32_t)-1);
        }
    }
    vipl_mutex_unlock(&delays->lock);
    return count;
}
