/* SPDX-License-Identifier: MIT */
/* Polling between processes. */
#ifndef VIPL_LOOPBACK_POLL_FILTER_H
#define VIPL_LOOPBACK_POLL_FILTER_H

#include <stdbool.h>

#include "backends/loopback/link.h"
#include "os/os_compiler.h"

bool vipl_lo_poll_fast(struct vipl_poll_filter *filter);
void vipl_lo_filter_close(
    struct vipl_be_nic *be); /* nothing comes from other processes, until there is a remote part */
void vipl_lo_filter_invalidate(struct vipl_be_nic *be); /* something waits for a poll */
void vipl_lo_filter_open(struct vipl_be_nic *be); /* there is a remote part: from now on something may come */
/* In a poll, rx held: whether nothing but a message of the peer's makes another look at that link necessary; then that is watched, as the
 * nth. When all links have been looked at: so many of them are so. */
bool vipl_lo_filter_add(struct vipl_poll_filter *filter, uint32_t n, const struct lo_link *link);
void vipl_lo_filter_commit(const struct lo_remote *remote, uint32_t quiet_links);
/* Whether the sockets are to be looked at, because they have not been for about a millisecond. */
bool vipl_lo_filter_poll_is_due(struct vipl_be_nic *be, struct lo_remote *remote);
/* Looks at the peer's end of the link, if that is due. False: the peer has ended, and nothing is to be sent. A VI's send lock is held. */
bool vipl_lo_check_peer(struct lo_link *link);

/* Whether something may be sent: the peer has not been seen to end. */
static inline bool lo_may_send(struct lo_link *link)
{
    return vipl_load_relaxed(&link->tx_ended) == 0 &&
           (VIPL_LIKELY(!vipl_ticks_reached(vipl_load_relaxed(&link->be->poll_filter.due))) ||
            vipl_lo_check_peer(link));
}

#endif
