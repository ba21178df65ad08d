/* SPDX-License-Identifier: MIT */
/*
 * One offer of a request of this process: to a NIC handle of this process, over a socket of its own
 * to another process, or over the socket of a link, as control messages (control.h).
 *
 * The callers of all functions hold the registry's lock.
 */
#ifndef VIPL_LOOPBACK_OFFER_H
#define VIPL_LOOPBACK_OFFER_H

#include "backends/loopback/link.h"
#include "backends/loopback/names.h"
#include "backends/loopback/request.h"

enum {
    LO_NO_PLACE = 32,
    LO_AGAIN_MS = 100 /* between tries after a shortage, or after a listener has hung up */
};

/* One offer of a request. Guarded by the registry. */
struct lo_offer {
    struct lo_source source; /* fd -1: the offer is within this process, or `via` is set */
    /* the link that carries the control messages of the offer; NULL: none */
    struct lo_link *via;
    struct vipl_list link; /* request->offers */
    struct lo_request *request;
    bool answered;   /* with `via`: the other end has answered, or has gone */
    unsigned number; /* in the claim word; never 0 */
    /* of the listener's socket; LO_NO_PLACE: there is none, or the listener has gone */
    unsigned place;
    struct vipl_be_nic *at; /* within this process: the NIC handle that listens */
    /* within this process: the pending request of core; NULL: core has none now */
    struct vipl_conn *conn;
};

/* The socket of an offer; -1: the offer is within this process. */
static inline int lo_offer_fd(const struct lo_offer *offer)
{
    return offer->via != NULL ? offer->via->source.fd : offer->source.fd;
}

/* The kind of the sockets at which programs listen for the request. */
static inline char lo_socket_kind(const struct lo_request *request)
{
    return request->peer ? 'p' : 'w';
}

/* Whether the request may be claimed. */
bool vipl_lo_request_is_pending(const struct lo_request *request);
/* The request is looked at (vipl_lo_offers_tick()) at that time at the latest. */
void vipl_lo_request_schedule(struct lo_request *request, uint64_t at);

/* Offers the request to a NIC handle of this process, if it listens. */
void vipl_lo_offer_to_local(struct lo_request *request, struct vipl_be_nic *be);
/* Offers the request by a control message; the caller offers it at the listener's place as well if
 * no program takes it. Returns false if that is not possible now. */
bool vipl_lo_offer_by_link(struct lo_request *request, struct lo_link *link);
/* Offers the request at each of those places, or `once`: at the first that has a listener. Returns
 * the places that have one. */
uint32_t vipl_lo_offer_to_places(struct lo_request *request, struct lo_name *name, uint32_t places,
                                 bool once);

/* The offer to that NIC handle; NULL: there is none. */
struct lo_offer *vipl_lo_offer_find_local(const struct lo_request *request, const struct vipl_be_nic *be);
/* Hands core an offer to a NIC handle of this process. */
void vipl_lo_offer_hand(struct lo_offer *offer);
/* Sends the request. The descriptors go along the first time over a socket or a link. Returns false
 * on failure. */
bool vipl_lo_offer_send(const struct lo_offer *offer, bool with_fds);
/* Frees an offer, which has been answered, or is withdrawn. */
void vipl_lo_offer_end(struct lo_offer *offer);

#endif
