/* SPDX-License-Identifier: MIT */
/*
 * Watches the next heads of up to four rings (core/poll_filter.h): a program that polls takes no
 * lock until one of them is published. If anything else waits for a poll, the filter is
 * invalidated, and every call polls. Invalidation is unlocked and can race with a commit; a poll is
 * therefore forced about once a millisecond. The end of a peer is noticed by the first call that
 * comes a millisecond later.
 */
#include "backends/loopback/poll_filter.h"

#include "backends/loopback/link.h"
#include "os/os_compiler.h"

enum {
    MIN_SPACING = 1,
    MAX_SPACING = 1 << 16 /* ticks: longer than a millisecond on any processor */
};

/* No poll is due for a very long time. */
static void set_never_due(struct vipl_poll_filter *filter)
{
    vipl_store_relaxed(&filter->due, vipl_ticks() + INT32_MAX);
}

void vipl_lo_filter_close(struct vipl_be_nic *be)
{
    set_never_due(&be->poll_filter);
    vipl_store_release(&be->poll_filter.words_plus_one, 1);
}

void vipl_lo_filter_invalidate(struct vipl_be_nic *be)
{
    vipl_store_relaxed(&be->poll_filter.words_plus_one, 0);
}

void vipl_lo_filter_open(struct vipl_be_nic *be)
{
    vipl_store_relaxed(&be->poll_filter.due, vipl_ticks());
    vipl_lo_filter_invalidate(be);
}

/* Whether the link needs no poll until its peer sends. */
static bool is_quiet(const struct lo_link *link)
{
    return link->reads_count == 0 && !link->resending && !link->hung_up &&
           vipl_load_relaxed(&link->dead) == 0 && vipl_load_relaxed(&link->waiting) == 0;
}

bool vipl_lo_filter_add(struct vipl_poll_filter *filter, uint32_t n, const struct lo_link *link)
{
    if (!is_quiet(link)) {
        return false;
    }
    if (VIPL_LIKELY(n < VIPL_POLL_FILTER_WORDS)) {
        uint32_t value;
        vipl_store_ptr(&filter->words[n], vipl_lo_ring_next(&link->in, &value));
        vipl_store_relaxed(&filter->values[n], value);
    }
    return true;
}

void vipl_lo_filter_commit(const struct lo_remote *remote, uint32_t quiet_links)
{
    bool quiet = quiet_links == vipl_load_relaxed(&remote->link_count) &&
                 quiet_links <= VIPL_POLL_FILTER_WORDS && vipl_load_relaxed(&remote->request_count) == 0 &&
                 vipl_load_relaxed(&remote->look_at_sockets) == 0;
    vipl_store_release(&remote->be->poll_filter.words_plus_one, quiet ? quiet_links + 1 : 0);
}

/* Reading sockets costs a system call, and reading the time costs more than reading the ticks. Both
 * are done when `spacing` ticks have passed, about a millisecond. This function adapts `spacing`,
 * since the length of a tick is not known. */
bool vipl_lo_filter_poll_is_due(struct vipl_be_nic *be, struct lo_remote *remote)
{
    if (!vipl_ticks_reached(vipl_load_relaxed(&be->poll_filter.due))) {
        return false;
    }
    uint32_t now = (uint32_t)(vipl_now_ns() >> 20);
    bool due = now != vipl_load_relaxed(&remote->polled_at);
    uint32_t spacing = vipl_load_relaxed(&remote->spacing);
    spacing = due ? spacing / 2 : spacing * 2;
    spacing = spacing < MIN_SPACING ? MIN_SPACING : spacing > MAX_SPACING ? MAX_SPACING : spacing;
    vipl_store_relaxed(&remote->polled_at, now);
    vipl_store_relaxed(&remote->spacing, spacing);
    vipl_store_relaxed(&be->poll_filter.due, vipl_ticks() + spacing);
    return due;
}

bool vipl_lo_poll_fast(struct vipl_poll_filter *filter)
{
    struct vipl_be_nic *be = VIPL_CONTAINER(filter, struct vipl_be_nic, poll_filter);
    struct lo_remote *remote = lo_remote_of(be);
    if (remote == NULL) {
        set_never_due(filter);
        return true;
    }
    if (vipl_lo_filter_poll_is_due(be, remote)) {
        vipl_store_relaxed(&remote->look_at_sockets, 1);
    }
    if (vipl_load_relaxed(&remote->request_count) > 0 || vipl_load_relaxed(&remote->look_at_sockets) != 0) {
        return false;
    }
    vipl_lo_remote_receive(remote, be);
    return true;
}

VIPL_NOINLINE bool vipl_lo_check_peer(struct lo_link *link)
{
    struct vipl_be_nic *be = link->be;
    struct lo_remote *remote = lo_remote_of(be);
    /* the next poll reads the sockets, in place of the one that was due */
    if (vipl_lo_filter_poll_is_due(be, remote)) {
        vipl_store_relaxed(&remote->look_at_sockets, 1);
        vipl_lo_filter_invalidate(be);
        if (vipl_local_has_hung_up(link->source.fd)) {
            vipl_store_relaxed(&link->tx_ended, 1);
        }
    }
    return vipl_load_relaxed(&link->tx_ended) == 0;
}
