/* SPDX-License-Identifier: MIT */
/*
 * Offers: how a request of ours comes before the programs that may take it. It is offered to every listener, of this process and
 * of others, and the one that claims it (claims.h) answers. Nothing is moved; a request has one owner, the requester.
 *
 * An offer to another process is a connection, or goes over the line of a link that the two NIC handles have (control.h). Its number
 * tells it from the request's other offers in the claim word. When it hangs up, and the word names it, the request is PENDING again,
 * and all others are told so by another CONNECT_REQUEST.
 *
 * The registry's lock is held by the callers of all of these.
 */
#ifndef VIPL_LOOPBACK_OFFERS_H
#define VIPL_LOOPBACK_OFFERS_H

#include "backends/loopback/link.h"
#include "backends/loopback/request.h"

enum { LO_NO_PLACE = 32 };

/* Guarded by the registry. */
struct lo_offer {
    struct lo_source source; /* fd -1: within this process, or over a line */
    struct lo_link *via;     /* whose line; NULL: none */
    struct vipl_list link;   /* request->offers */
    struct lo_request *request;
    bool answered;   /* over a line: the other end has done with it */
    unsigned number; /* in the claim word; never 0 */
    unsigned place;  /* of the listener; LO_NO_PLACE: over a line, within this process, or it has gone */
    struct vipl_be_nic *at; /* within this process: the NIC handle that listens */
    struct vipl_conn *conn; /* and what core has of it; NULL: nothing now */
};

/* Offers the new request to every listener. VIP_ERROR_RESOURCE: that is not possible, and nothing was begun. */
VIP_RETURN vipl_lo_offers_begin(struct lo_request *request);
void vipl_lo_offers_end(struct lo_request *request);
/* A program asks `be` for requests: those whose offer core has no conn of get one, if they are PENDING. */
void vipl_lo_offers_look(struct vipl_be_nic *be);
/* The NIC handle does not listen for that any more; NULL: for nothing, for good. */
void vipl_lo_offers_forget(struct vipl_be_nic *be, const struct vipl_address *local);
/* A listener of another process is new at that place. */
void vipl_lo_offers_notice(struct lo_remote *remote, uint64_t hash, unsigned place);
/* Symmetric: at that place is one that is to answer the request. */
void vipl_lo_offer_back(struct lo_request *request, unsigned place);
void vipl_lo_offer_event(struct lo_offer *offer);
/* A reply has come over the link's line; and nothing comes there any more. */
void vipl_lo_offer_answered(struct lo_link *via, const struct lo_reply *reply);
void vipl_lo_offers_hang_up(struct lo_link *via);
/* Whether the request may be claimed; and it may be again, after it was BUSY. */
bool vipl_lo_request_is_pending(const struct lo_request *request);
void vipl_lo_request_available(struct lo_request *request);
void vipl_lo_offers_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);
/* Ends the VI's request, whose time is up: as connect_cancel of the contract. VIP_NOT_DONE: its reply is on its way, over *fd;
 * not with `last`. */
VIP_RETURN vipl_lo_offers_cancel(struct vipl_vi *vi, bool last, int *fd);
void vipl_lo_claims_close(struct lo_remote *remote);

#endif
