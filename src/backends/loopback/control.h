/* SPDX-License-Identifier: MIT */
/*
 * Control messages: two NIC handles that have a link connect further VIs over the link's socket,
 * which saves one socket per VI. The same socket carries wake-ups and the peer's waker. The thread
 * that reads the links' sockets receives the control messages and queues them under rx; they are
 * handled later, under the registry's lock. A control message names the request that it is about by
 * the claim word (slot, generation) and the offer's number.
 */
#ifndef VIPL_LOOPBACK_CONTROL_H
#define VIPL_LOOPBACK_CONTROL_H

#include "backends/loopback/link.h"
#include "backends/loopback/request.h"

/* A control message that was received. */
struct lo_control {
    struct vipl_list link; /* remote->controls; rx */
    struct lo_link *from;
    int fds[2]; /* the descriptors that came along; -1: none */
    size_t length;
    uint8_t bytes[LO_PACKET];
};

/* Receives the first message on the link's socket or, if `all`, a batch of them. Queues control
 * messages, takes the peer's waker and drops wake-ups. The socket stays readable if there are more.
 * Returns false if there is no memory for a control message: the link then has to end. rx is
 * held. */
bool vipl_lo_control_receive(struct lo_link *link, bool all);
/* Takes the oldest control message, which the caller frees. NULL: there is none. Takes rx. */
struct lo_control *vipl_lo_control_take(struct lo_remote *remote);
/* Frees a control message and closes its descriptors. */
void vipl_lo_control_free(struct lo_control *message);
/* Frees the control messages of a link that is about to be freed. rx is held. */
void vipl_lo_control_drop(struct lo_link *link);

#endif
