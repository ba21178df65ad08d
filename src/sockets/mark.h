/* SPDX-License-Identifier: MIT */
/*
 * Marks: how a client finds out that a VIPL program of its own user listens at a TCP port of this
 * host, before it sends that program anything.
 *
 * A mark is a listening local socket with the abstract name "vipl/sockets/USER/PORT". Abstract
 * names belong to a network name space, as ports do. The kernel tells who listens there. A mark is
 * shared by the processes that a listener's descriptors are in: forked children keep it, exec ends
 * it.
 */
#ifndef VIPL_SOCKETS_MARK_H
#define VIPL_SOCKETS_MARK_H

#include <stdbool.h>
#include <stdint.h>

struct sock_mark;

/* Makes a mark for a port. NULL: it cannot be made. A port may have several listeners
 * (SO_REUSEPORT): the others have a mark without a name, which takes the name over by
 * sock_mark_keep() when it has become free. */
struct sock_mark *sock_mark_new(uint16_t port);
void sock_mark_free(struct sock_mark *mark);
void sock_marks_forked(void);
/* To be called now and then: takes the clients that have asked, so that more can ask. Returns true
 * if there have been any within the last second. */
bool sock_mark_keep(struct sock_mark *mark);

enum sock_marked {
    SOCK_MARKED_NO,    /* no VIPL program listens at the port */
    SOCK_MARKED_OTHER, /* another user's does */
    SOCK_MARKED,       /* another process of this user does */
    SOCK_MARKED_SELF   /* this very process does */
};
enum sock_marked sock_mark_ask(uint16_t port);

#endif
