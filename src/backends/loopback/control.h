/* SPDX-License-Identifier: MIT */
/*
 * Control messages: two NIC handles that have a link connect further VIs over the link's socket, which saves a socket
 * for each VI. The same socket carries wake-ups. The thread that looks at the links receives control messages and
 * keeps them under rx, until they are read under the registry's lock. A control message about a request names the
 * request by its claim word (slot, generation) and the number of the offer.
 */
#ifndef VIPL_LOOPBACK_CONTROL_H
#define VIPL_LOOPBACK_CONTROL_H

#include "backends/loopback/link.h"
#include "backends/loopback/request.h"

struct lo_control {
    struct vipl_list link; /* remote->controls; rx */
    struct lo_link *from;
    int fds[2]; /* that came along; -1: none */
    size_t length;
    uint8_t bytes[LO_PACKET];
};

/* Takes the first of what waits on the link's socket, or `all` of it, up to a number; wake-ups are thrown away. The socket stays
 * readable if there is more. False: there is no memory for a control message, and the link has to end. rx is held. */
bool vipl_lo_control_receive(struct lo_link *link, bool all);
/* The oldest; the caller frees it. NULL: none. rx is not held. */
struct lo_control *vipl_lo_control_take(struct lo_remote *remote);
void vipl_lo_control_free(struct lo_control *message); /* and closes its descriptors */
/* Those from a link that is about to go. rx is held. */
void vipl_lo_control_drop(struct lo_link *link);

#endif
