/* SPDX-License-Identifier: MIT */
/*
 * Offers show a request of this process to the programs that may take it. The request is offered to
 * every listener of its address, in this process and in others. The program that claims the request
 * (claims.h) answers. A request has one owner, the requester, and is never handed over.
 *
 * An offer to another process has a socket of its own, or goes over the socket of a link that the
 * two NIC handles have, as control messages (control.h). Its number tells it from the other offers
 * of the request in the claim word. If the other end of an offer hangs up while the word names the
 * offer, the request becomes PENDING again, and the other offers announce that by another
 * CONNECT_REQUEST.
 *
 * The callers of all functions hold the registry's lock.
 */
#ifndef VIPL_LOOPBACK_OFFERS_H
#define VIPL_LOOPBACK_OFFERS_H

#include "backends/loopback/link.h"
#include "backends/loopback/request.h"

enum { LO_NO_PLACE = 32 };

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

/* Offers a new request to every listener. VIP_ERROR_RESOURCE: no resources, VIP_NO_MATCH: nobody
 * listens, and the request is AT_ONCE; nothing was begun. */
VIP_RETURN vipl_lo_offers_begin(struct lo_request *request);
/* Ends all offers of a request, and its claim word. */
void vipl_lo_offers_end(struct lo_request *request);
/* As vipl_backend.conns_look, for requests of this process: hands to core the requests that are
 * PENDING and that core does not have. */
void vipl_lo_offers_look(struct vipl_be_nic *be);
/* The NIC handle stops listening for an address, or is closed (`local` is NULL): ends the offers to
 * it. An offer that core has stays while the NIC handle is open. */
void vipl_lo_offers_forget(struct vipl_be_nic *be, const struct vipl_address *local);
/* A notice: a new listener of another process is at that place. */
void vipl_lo_offers_notice(struct lo_remote *remote, uint64_t hash, unsigned place);
/* Offers a request to the listener at that place, if it does not have the request. */
void vipl_lo_offer_back(struct lo_request *request, unsigned place);
/* Handles what the other end of an offer has sent. May free `offer`. */
void vipl_lo_offer_event(struct lo_offer *offer);
/* Handle a reply that has come as a control message of the link `via`, and the end of that link. */
void vipl_lo_offer_answered(struct lo_link *via, const struct lo_reply *reply);
void vipl_lo_offers_hang_up(struct lo_link *via);
/* Whether the request may be claimed. */
bool vipl_lo_request_is_pending(const struct lo_request *request);
/* Makes a BUSY request PENDING again, and announces that. */
void vipl_lo_request_available(struct lo_request *request);
/* Takes the steps of requests whose time has come. Lowers *soonest to the next such time. */
void vipl_lo_offers_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);
/* Ends the VI's request, as vipl_backend.connect_cancel. VIP_NOT_DONE: the request was accepted and
 * the reply is on its way over *fd; not returned if `last`. */
VIP_RETURN vipl_lo_offers_cancel(struct vipl_vi *vi, bool last, int *fd);
/* Frees the claim words of a NIC handle that is closed. */
void vipl_lo_claims_close(struct lo_remote *remote);

#endif
