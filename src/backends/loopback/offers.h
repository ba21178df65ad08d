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

#include "backends/loopback/offer.h"

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
/* Makes a BUSY request PENDING again, and announces that. */
void vipl_lo_request_available(struct lo_request *request);
/* The offer of that number has ended: if a program has the request by it, the request becomes
 * PENDING again. */
void vipl_lo_request_release(struct lo_request *request, unsigned number);
/* An offer has ended without an answer, maybe the last one. An AT_ONCE request does not wait for
 * the next listener. */
void vipl_lo_offer_lost(struct lo_request *request);
/* Ends the request with that result. */
void vipl_lo_request_fail(struct lo_request *request, VIP_RETURN rc);
/* Takes the steps of requests whose time has come. Lowers *soonest to the next such time. */
void vipl_lo_offers_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);
/* Frees the claim words of a NIC handle that is closed. */
void vipl_lo_claims_close(struct lo_remote *remote);

#endif
