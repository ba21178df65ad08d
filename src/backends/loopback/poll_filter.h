/* SPDX-License-Identifier: MIT */
/* The poll filter of a NIC handle (core/poll_filter.h): the next heads of the rings of its
 * links. */
#ifndef VIPL_LOOPBACK_POLL_FILTER_H
#define VIPL_LOOPBACK_POLL_FILTER_H

#include <stdbool.h>

#include "backends/loopback/link.h"
#include "os/os_compiler.h"

/* As vipl_poll_filter.poll: the fast poll. Returns false if a full poll is needed. */
bool vipl_lo_poll_fast(struct vipl_poll_filter *filter);
/* The NIC handle has no remote part: no poll is needed. */
void vipl_lo_filter_close(struct vipl_be_nic *be);
/* Something waits for a poll: makes every call poll until the next commit. */
void vipl_lo_filter_invalidate(struct vipl_be_nic *be);
/* The NIC handle has a remote part now: polls are needed. */
void vipl_lo_filter_open(struct vipl_be_nic *be);
/* Called in a poll, under rx, for each link. Returns true if only a message from the peer makes
 * another poll of the link necessary: the link is quiet, and its next head becomes the nth word of
 * the filter. */
bool vipl_lo_filter_add(struct vipl_poll_filter *filter, uint32_t n, const struct lo_link *link);
/* Called at the end of that poll: publishes the filter if all links are quiet and nothing else is
 * pending. */
void vipl_lo_filter_commit(const struct lo_remote *remote, uint32_t quiet_links);
/* Whether the sockets are to be read, because that was last done about a millisecond ago. The
 * caller has to have them read if this returns true. */
bool vipl_lo_filter_poll_is_due(struct vipl_be_nic *be, struct lo_remote *remote);
/* Checks whether the peer has hung up, if that is due. Returns false if the peer has ended: nothing
 * is sent then. A VI's send lock is held. */
bool vipl_lo_check_peer(struct lo_link *link);

/* Whether something may be sent: the peer is not known to have ended. */
static inline bool lo_may_send(struct lo_link *link)
{
    return vipl_load_relaxed(&link->tx_ended) == 0 &&
           (VIPL_LIKELY(!vipl_ticks_reached(vipl_load_relaxed(&link->be->poll_filter.due))) ||
            vipl_lo_check_peer(link));
}

#endif
