/* SPDX-License-Identifier: MIT */
/*
 * Marks: how a client finds out that a VIPL program of its own user listens at a TCP port of this
 * host, before it sends that program anything.
 *
 * A mark is a listening local socket with the abstract name "vipl/sockets/USER/ADDRESS/PORT", where
 * the address is what the listener is bound to: an address of IPv6, mapped for IPv4; "*" for all
 * addresses, "*4" and "*6" for all of a family. Abstract names belong to a network name space, as
 * ports do. The kernel tells who listens there. A mark is
 * shared by the processes that a listener's descriptors are in: forked children keep it, exec ends
 * it.
 */
#ifndef VIPL_SOCKETS_MARK_H
#define VIPL_SOCKETS_MARK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct sock_mark;

/* Where a socket listens, or is to be found. An IPv4 address is a mapped one. */
struct sock_address {
    struct in6_addr host;
    uint16_t port;
    bool is_v6_only; /* a listener's: all addresses are those of IPv6 */
};

enum { SOCK_ADDRESS_BYTES = INET6_ADDRSTRLEN, SOCK_ADDRESS_NAMES = 3 };

/* Writes what a listener is bound to, as names of marks have it. */
void sock_address_host(const struct sock_address *place, char host[SOCK_ADDRESS_BYTES]);
/* What the listener that gets a connection to the place may be bound to, in the kernel's order: the
 * very address, which is written to `host`, all of its family, all. */
void sock_address_hosts(const struct sock_address *place, char host[SOCK_ADDRESS_BYTES],
                        const char *names[SOCK_ADDRESS_NAMES]);

/* Makes a mark for a listener. NULL: it cannot be made. A place may have several listeners
 * (SO_REUSEPORT): the others have a mark without a name, which takes the name over by
 * sock_mark_keep() when it has become free. */
struct sock_mark *sock_mark_new(const struct sock_address *place);
void sock_mark_free(struct sock_mark *mark);
void sock_marks_forked(void);
/* To be called now and then: takes the clients that have asked, so that more can ask. Returns true
 * if there have been any within the last second. */
bool sock_mark_keep(struct sock_mark *mark);

enum sock_marked {
    SOCK_MARKED_NO,    /* no VIPL program listens there */
    SOCK_MARKED_OTHER, /* another user's does */
    SOCK_MARKED,       /* another process of this user does */
    SOCK_MARKED_SELF   /* this very process does */
};
/* Asks whether a connection to the place would come to a marked listener. */
enum sock_marked sock_mark_ask(const struct sock_address *place);

#endif
