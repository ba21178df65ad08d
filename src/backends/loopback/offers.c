/* SPDX-License-Identifier: MIT */
/* All offers of a request. */
#include "backends/loopback/offers.h"

#include <errno.h>

#include "backends/loopback/calls.h"
#include "backends/loopback/claims.h"
#include "backends/loopback/names.h"
#include "backends/loopback/poll_filter.h"
#include "base/deadline.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    FIRST_MS = 2, /* for a program to take the request before its pending socket is made */
    PEER_MS = 20  /* for the first peer to answer before other places are asked */
};

/* Of the id of a symmetric request that has met no other one when it began. */
#define LO_EARLIER (UINT64_C(1) << 63)

static uint32_t offered_places(const struct lo_request *request)
{
    uint32_t places = 0;
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        const struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        places |= offer->place < LO_PLACES ? UINT32_C(1) << offer->place : 0;
    }
    return places;
}

/* Offers the request by a link, if exactly one listener of other processes is known and a link
 * leads to it. Returns false if not. */
static bool offer_to_peer(struct lo_request *request, const struct lo_known *known)
{
    bool is_one = known->places != 0 && (known->places & (known->places - 1)) == 0;
    if (known->link == 0 || !is_one) {
        return false;
    }
    struct lo_link *link = vipl_lo_link_find(lo_remote_of(request->nic), NULL, known->link);
    return link != NULL && vipl_lo_link_is_confirmed(link) && vipl_lo_offer_by_link(request, link);
}

/* Offers the request to every listener that does not have it. `at_first`: only to those listeners
 * that were found for the discriminator before, if one of them is still there; a symmetric request
 * to the first that is there, which is its peer unless several requests have the same address. */
static void offer_everywhere(struct lo_request *request, bool at_first)
{
    request->listener_full = false;
    request->short_of = false;
    for (struct vipl_list *l = vipl_lo_registry.nics.next; !request->peer && l != &vipl_lo_registry.nics;
         l = l->next) {
        vipl_lo_offer_to_local(request, VIPL_CONTAINER(l, struct vipl_be_nic, link));
    }
    uint64_t hash = vipl_lo_hash_of(&request->remote);
    struct lo_known *known = &lo_remote_of(request->nic)->known[hash % LO_KNOWN];
    bool is_known = !request->peer && at_first && known->hash == hash;
    if (is_known && offer_to_peer(request, known)) {
        return; /* other listeners get the request after FIRST_MS */
    }
    uint32_t user = vipl_local_user();
    uint32_t places = ~(vipl_lo_own_places(user, lo_socket_kind(request), hash) | offered_places(request) |
                        request->shunned);
    struct lo_name name;
    vipl_lo_name_begin(&name, user, lo_socket_kind(request), hash);
    if (is_known && vipl_lo_offer_to_places(request, &name, places & known->places, false) != 0) {
        return; /* as above */
    }
    (void)vipl_lo_offer_to_places(request, &name, places & ~offered_places(request),
                                  request->peer && at_first);
    if (!request->peer) {
        known->link = known->hash == hash ? known->link : 0;
        known->hash = hash;
        known->places = offered_places(request);
    }
}

/* Whether an AT_ONCE request has been offered at every place, and no listener has it. The listener
 * of an offer that has just ended may have a successor: offer_everywhere() comes first. */
static bool nobody_listens(const struct lo_request *request)
{
    return request->at_once && vipl_list_empty(&request->offers) && !request->short_of;
}

void vipl_lo_offer_lost(struct lo_request *request)
{
    if (request->at_once) {
        vipl_lo_request_schedule(request, vipl_now_ns());
        vipl_up_wake(request->nic->core); /* a sleeper does not know the new deadline */
    }
}

/* Returns the claim words, which are made at the first request. NULL: no resources. */
static struct lo_claims *get_claims(struct lo_remote *remote)
{
    if (remote->claims == NULL) {
        struct lo_claims *claims = vipl_zalloc(sizeof(*claims));
        int error = claims == NULL
                        ? ENOMEM
                        : vipl_shm_create(&claims->shm, "vipl-claims", LO_CLAIMS * sizeof(uint32_t));
        if (error != 0) {
            vipl_log_os(VIPL_LOG_ERROR, "preparing to ask other processes", error);
            vipl_free(claims);
            return NULL;
        }
        remote->claims = claims;
    }
    return remote->claims;
}

void vipl_lo_claims_close(struct lo_remote *remote)
{
    if (remote->claims != NULL) {
        vipl_shm_release(&remote->claims->shm);
        vipl_free(remote->claims);
        remote->claims = NULL;
    }
}

/* When the second step of a new request is due, its pending socket: FIRST_MS later, in which most
 * requests are taken; at once if there is no listener that could take it. Of a symmetric request
 * that is to ask more places. */
static uint64_t first_step_at(const struct lo_request *request)
{
    if (request->peer) {
        return vipl_list_empty(&request->offers) ? VIPL_NO_DEADLINE : vipl_deadline(PEER_MS);
    }
    return vipl_list_empty(&request->offers) ? vipl_now_ns() : vipl_deadline(FIRST_MS);
}

/* A symmetric request gets its name before it is offered: of two that begin at the same time one
 * sees the other. The one that sees none gets a greater id than all that see it: it answers them at
 * once, and need not be offered itself. */
VIP_RETURN vipl_lo_offers_begin(struct lo_request *request)
{
    struct lo_remote *remote = vipl_lo_prepare(request->nic);
    struct lo_claims *claims = remote == NULL ? NULL : get_claims(remote);
    vipl_list_init(&request->offers);
    request->step_at = VIPL_NO_DEADLINE;
    if (claims == NULL || (request->peer && vipl_entropy(&request->id, sizeof(request->id)) != 0) ||
        !vipl_lo_claim_begin(claims, &request->claim)) {
        return VIP_ERROR_RESOURCE;
    }
    request->id &= ~LO_EARLIER;
    if (request->peer) {
        request->socket = vipl_lo_socket_open(remote, 'p', vipl_lo_hash_of(&request->local));
        if (request->socket == NULL) {
            vipl_lo_claim_end(claims, &request->claim);
            return VIP_ERROR_RESOURCE;
        }
    }
    offer_everywhere(request, true);
    request->id |= vipl_list_empty(&request->offers) && !request->short_of ? LO_EARLIER : 0;
    if (nobody_listens(request)) {
        vipl_lo_claim_end(claims, &request->claim);
        return VIP_NO_MATCH;
    }
    vipl_store_relaxed(&remote->request_count, remote->request_count + 1);
    vipl_lo_filter_invalidate(remote->be);
    vipl_lo_request_schedule(request, first_step_at(request));
    vipl_up_wake(remote->be->core); /* a sleeper does not know the new deadline */
    return VIP_SUCCESS;
}

static void end_all_offers(struct lo_request *request)
{
    while (!vipl_list_empty(&request->offers)) {
        vipl_lo_offer_end(VIPL_CONTAINER(request->offers.next, struct lo_offer, link));
    }
}

void vipl_lo_offers_end(struct lo_request *request)
{
    if (request->matched != NULL) {
        vipl_lo_incoming_unmatch(request->matched);
    }
    end_all_offers(request);
    struct lo_remote *remote = lo_remote_of(request->nic);
    vipl_store_relaxed(&remote->request_count, remote->request_count - 1);
    vipl_lo_socket_close(remote, request->socket);
    vipl_lo_claim_end(remote->claims, &request->claim);
}

void vipl_lo_offers_look(struct vipl_be_nic *be)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        if (!request->peer) {
            vipl_lo_offer_to_local(request, be);
        }
    }
}

void vipl_lo_offers_forget(struct vipl_be_nic *be, const struct vipl_address *local)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        struct lo_offer *offer = vipl_lo_offer_find_local(request, be);
        if (offer == NULL) {
            continue;
        }
        /* An offer that core has may still be taken. */
        if (local == NULL ||
            (offer->conn == NULL && vipl_address_same_discriminator(&request->remote, local))) {
            vipl_lo_offer_end(offer);
            vipl_lo_offer_lost(request);
        }
    }
}

/* --- the claim word --- */

/* Tells all that have the request that it is PENDING again, and offers it to those that do not have
 * it. */
static void announce_pending(struct lo_request *request)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (lo_offer_fd(offer) >= 0) {
            /* If this fails, the other end has gone, or has unread packets of the offer. */
            vipl_lo_offer_send(offer, false);
        } else if (offer->conn == NULL) {
            vipl_lo_offer_hand(offer);
        }
    }
    vipl_lo_request_schedule(request, vipl_now_ns());
}

void vipl_lo_request_available(struct lo_request *request)
{
    if (vipl_lo_claim_change(&request->claim, LO_BUSY, LO_PENDING)) {
        announce_pending(request);
    }
}

void vipl_lo_request_release(struct lo_request *request, unsigned number)
{
    uint32_t word = vipl_lo_claim_read(&request->claim);
    while (lo_claim_number_of(word) == number) {
        if (vipl_lo_claim_move(&request->claim, word, LO_PENDING)) {
            announce_pending(request);
            return;
        }
        word = vipl_lo_claim_read(&request->claim);
    }
}

void vipl_lo_request_fail(struct lo_request *request, VIP_RETURN rc)
{
    struct vipl_vi *vi = request->vi;
    vipl_lo_request_end(request);
    vipl_up_connect_failed(vi, rc);
}

/* --- time --- */

/* No number is left: ends all offers, and begins a new generation of the claim word, which they
 * cannot claim. */
static void renew_claim(struct lo_request *request)
{
    if (vipl_lo_claim_change(&request->claim, LO_PENDING, LO_ENDED)) {
        end_all_offers(request);
        request->last_number = 0;
        vipl_lo_claim_renew(lo_remote_of(request->nic)->claims, &request->claim);
    }
}

/* The time of a request has come: offers it again, if no program has it. */
static void offer_again(struct lo_request *request)
{
    struct lo_remote *remote = lo_remote_of(request->nic);
    request->step_at = VIPL_NO_DEADLINE;
    if (!vipl_lo_request_is_pending(request)) {
        return; /* announce_pending() sets the time if it is PENDING again */
    }
    if (request->last_number == LO_LAST_NUMBER) {
        renew_claim(request);
    }
    /* The name comes before the offers: a listener that begins between them gives notice. */
    if (request->socket == NULL) {
        request->socket = vipl_lo_socket_open(remote, 'r', vipl_lo_hash_of(&request->remote));
        vipl_lo_request_schedule(request,
                                 request->socket == NULL ? vipl_deadline(LO_AGAIN_MS) : VIPL_NO_DEADLINE);
    }
    offer_everywhere(request, false);
}

void vipl_lo_offers_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        next = l->next;
        if (request->nic != remote->be) {
            continue;
        }
        if (now >= request->step_at) {
            offer_again(request);
            if (nobody_listens(request)) {
                vipl_lo_request_fail(request, VIP_NO_MATCH);
                continue;
            }
            if (request->peer && vipl_lo_request_match(request)) {
                lo_set_timed(remote);
                return; /* more than one request may have ended: the next tick goes on */
            }
        }
        *soonest = request->step_at < *soonest ? request->step_at : *soonest;
    }
}

/* A dead listener, whose hang-up is not handled yet, has left its place to a new one. */
static void clear_dead_place(struct lo_request *request, unsigned place)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (offer->place == place && vipl_local_has_hung_up(offer->source.fd)) {
            offer->place = LO_NO_PLACE; /* the event of the offer handles what it has sent */
            return;
        }
    }
}

void vipl_lo_offer_back(struct lo_request *request, unsigned place)
{
    struct lo_name name;
    if (place >= LO_PLACES) {
        return;
    }
    clear_dead_place(request, place);
    if ((offered_places(request) >> place & 1) == 0) {
        vipl_lo_name_begin(&name, vipl_local_user(), lo_socket_kind(request),
                           vipl_lo_hash_of(&request->remote));
        (void)vipl_lo_offer_to_places(request, &name, UINT32_C(1) << place, false);
    }
}

void vipl_lo_offers_notice(struct lo_remote *remote, uint64_t hash, unsigned place)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        if (!request->peer && request->nic == remote->be && vipl_lo_hash_of(&request->remote) == hash) {
            vipl_lo_offer_back(request, place);
        }
    }
}
