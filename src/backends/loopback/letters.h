/* SPDX-License-Identifier: MIT */
/*
 * Letters: two NIC handles that have a link connect further VIs over its socket, which carries wake-ups otherwise, and spare a socket for
 * each. What comes there for connecting is kept by the thread that looks at the links, under rx, until it is read under the registry's lock. A
 * letter about a request names it by its claim word (slot, generation) and the number of the offer.
 */
#ifndef VIPL_LOOPBACK_LETTERS_H
#define VIPL_LOOPBACK_LETTERS_H

#include "backends/loopback/link.h"
#include "backends/loopback/request.h"

struct lo_letter {
    struct vipl_list link; /* remote->letters; rx */
    struct lo_link *from;
    int fds[2]; /* that came along; -1: none */
    size_t length;
    uint8_t bytes[LO_PACKET];
};

/* Takes the first of what waits on the link's socket, or `all` of it, up to a number; wake-ups are thrown away. The socket stays
 * readable if there is more. False: there is no memory for a letter, and the link has to end. rx is held. */
bool vipl_lo_letters_receive(struct lo_link *link, bool all);
/* The oldest; the caller frees it. NULL: none. rx is not held. */
struct lo_letter *vipl_lo_letter_take(struct lo_remote *remote);
void vipl_lo_letter_free(struct lo_letter *letter); /* and closes its descriptors */
/* Those from a link that is about to go. rx is held. */
void vipl_lo_letters_drop(struct lo_link *link);

#endif
