/* SPDX-License-Identifier: MIT */
/* Polling between processes. */
#ifndef VIPL_LOOPBACK_QUICK_H
#define VIPL_LOOPBACK_QUICK_H

#include <stdbool.h>

#include "backends/loopback/loopback.h"

struct lo_link;
struct lo_remote;

bool vipl_lo_quick_poll(struct vipl_quick *quick);
void vipl_lo_quick_rest(
    struct vipl_be_nic *be); /* nothing comes from other processes, until there is a remote part */
void vipl_lo_quick_stir(struct vipl_be_nic *be); /* something waits for a poll */
/* In a poll, rx held: whether nothing but a message of the peer's makes another look at that link necessary; then that is watched, as the
 * nth. When all links have been looked at: so many of them are so. */
bool vipl_lo_quick_watch(struct vipl_quick *quick, uint32_t n, const struct lo_link *link);
void vipl_lo_quick_end(const struct lo_remote *remote, uint32_t quiet_links);
/* Whether a poll is to look at the sockets, because it has not for about a millisecond. */
bool vipl_lo_quick_is_due(struct vipl_be_nic *be, struct lo_remote *remote);

#endif
