/* SPDX-License-Identifier: MIT */
/* Offers of this process's requests. */
#include "backends/loopback/offers.h"

#include <errno.h>
#include <string.h>

#include "backends/loopback/calls.h"
#include "backends/loopback/claims.h"
#include "backends/loopback/names.h"
#include "backends/loopback/poll_filter.h"
#include "backends/loopback/tx.h"
#include "base/deadline.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    FIRST_MS = 2,  /* for a program to take the request before its pending socket is made */
    PEER_MS = 20,  /* for the first peer to answer before other places are asked */
    AGAIN_MS = 100 /* between tries after a shortage */
};

/* Of the id of a symmetric request that has met no other one when it began. */
#define LO_EARLIER (UINT64_C(1) << 63)

static char socket_kind(const struct lo_request *request)
{
    return request->peer ? 'p' : 'w';
}

static void schedule_offer(struct lo_request *request, uint64_t at)
{
    request->step_at = at < request->step_at ? at : request->step_at;
    lo_set_timed(lo_remote_of(request->nic));
}

/* There were no resources for an offer. A listener may have been missed, and is asked later. */
static void offer_failed(struct lo_request *request)
{
    request->short_of = true;
    schedule_offer(request, vipl_deadline(AGAIN_MS));
}

/* --- one offer --- */

/* NULL: no memory, or the request has no number left. It is then offered again later. */
static struct lo_offer *offer_new(struct lo_request *request, int fd, unsigned place)
{
    struct lo_offer *offer = request->last_number < LO_LAST_NUMBER ? vipl_zalloc(sizeof(*offer)) : NULL;
    if (offer == NULL) {
        offer_failed(request);
        return NULL;
    }
    offer->source.kind = LO_SOURCE_OFFER;
    offer->source.fd = fd;
    offer->request = request;
    offer->number = ++request->last_number;
    offer->place = place;
    vipl_list_append(&request->offers, &offer->link);
    return offer;
}

/* Returns the socket of the offer; -1: the offer is within this process. */
static int offer_fd(const struct lo_offer *offer)
{
    return offer->via != NULL ? offer->via->source.fd : offer->source.fd;
}

/* Ends an offer by a control message, as a hang-up ends an offer that has a socket. If the link's
 * socket is full, the peer finds out by the claim word that it is too late. */
static void send_withdrawn(const struct lo_offer *offer)
{
    const struct lo_claim *claim = &offer->request->claim;
    struct lo_reply reply = {.type = LO_REPLY_WITHDRAWN,
                             .number = (uint8_t)offer->number,
                             .slot = claim->slot,
                             .generation = claim->generation};
    uint8_t bytes[LO_PACKET];
    (void)vipl_local_send(offer_fd(offer), bytes, vipl_lo_reply_write(&reply, bytes), NULL, 0);
}

static void offer_end(struct lo_offer *offer)
{
    if (offer->conn != NULL) {
        lo_conn_of(offer->conn)->offer = NULL;
        vipl_up_conn_gone(offer->conn);
    }
    if (offer->via != NULL && !offer->answered) {
        send_withdrawn(offer);
    }
    if (offer->source.fd >= 0) {
        vipl_pollset_remove(&lo_remote_of(offer->request->nic)->setup, offer->source.fd);
        vipl_fd_close(offer->source.fd);
    }
    vipl_list_remove(&offer->link);
    vipl_free(offer);
}

/* Sends the request. The descriptors go along the first time over a socket or a link. Returns false
 * on failure. */
static bool send_offer(const struct lo_offer *offer, bool with_fds)
{
    const struct lo_request *request = offer->request;
    struct lo_remote *remote = lo_remote_of(request->nic);
    uint8_t bytes[LO_PACKET];
    struct lo_connect_request packet = {
        .writer = vipl_lo_own_kind(),
        .peer = request->peer,
        .id = request->id,
        .mark = vipl_lo_mark,
        .tag = vipl_up_vi_tag(request->vi),
        .generation = request->claim.generation,
        .slot = request->claim.slot,
        .number = (uint8_t)offer->number,
        .place = (uint8_t)(request->peer ? request->socket->place : 0),
        .params = request->params,
        .local = request->local,
        .remote = request->remote,
    };
    memcpy(packet.process, vipl_lo_process_uid, LO_UID);
    memcpy(packet.nic, remote->uid, LO_UID);
    int fds[2] = {vipl_lo_own_exports(remote->be), remote->claims->shm.fd};
    size_t length = vipl_lo_connect_request_write(&packet, bytes);
    return vipl_local_send(offer_fd(offer), bytes, length, fds, with_fds ? 2 : 0) == 0;
}

/* Offers the request over a connected socket, which belongs to the offer from now on, or is
 * closed. */
static void offer_by_socket(struct lo_request *request, int fd, unsigned place)
{
    struct lo_offer *offer = offer_new(request, fd, place);
    if (offer == NULL) {
        vipl_fd_close(fd);
    } else if (vipl_pollset_add(&lo_remote_of(request->nic)->setup, fd, &offer->source) != 0 ||
               !send_offer(offer, true)) {
        offer_end(offer);
        offer_failed(request);
    }
}

/* Offers the request by a control message. After FIRST_MS it is offered at the listener's place as
 * well. Returns false if that is not possible now. */
static bool offer_by_link(struct lo_request *request, struct lo_link *link)
{
    struct lo_offer *offer = offer_new(request, -1, LO_NO_PLACE);
    if (offer == NULL) {
        return false;
    }
    offer->via = link;
    if (!send_offer(offer, !link->claims_sent)) {
        offer->answered = true; /* the peer does not have the offer */
        offer_end(offer);
        return false;
    }
    link->claims_sent = true;
    return true;
}

/* Offers the request to the listener at a place. *fd serves for several tries. Returns false if no
 * listener is there, or its queue is full. */
static bool offer_to_place(struct lo_request *request, struct lo_name *name, unsigned place, int *fd)
{
    int error = vipl_local_connect(name->text, vipl_lo_name_at(name, place), fd);
    if (error == 0) {
        offer_by_socket(request, *fd, place);
        *fd = -1;
    } else if (error != ECONNREFUSED) {
        request->listener_full |= error == EAGAIN;
        offer_failed(request);
    }
    return error == 0;
}

/* Offers the request at each of those places, or `once`: at the first that has a listener. Returns
 * the places that have one. */
static uint32_t offer_to_places(struct lo_request *request, struct lo_name *name, uint32_t places, bool once)
{
    uint32_t found = 0;
    int fd = -1;
    for (unsigned place = 0; place < LO_PLACES && !(once && found != 0); place++) {
        if ((places >> place & 1) != 0 && offer_to_place(request, name, place, &fd)) {
            found |= UINT32_C(1) << place;
        }
    }
    vipl_fd_close(fd);
    return found;
}

static void hand_offer_to_core(struct lo_offer *offer)
{
    const struct lo_request *request = offer->request;
    offer->conn = vipl_up_conn_arrived(offer->at->core, &request->remote, &request->local, &request->params);
    if (offer->conn != NULL) {
        lo_conn_of(offer->conn)->offer = offer;
    } /* else the next VipConnectWait() of the NIC handle tries again */
}

static struct lo_offer *find_local_offer(const struct lo_request *request, const struct vipl_be_nic *be)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (offer->at == be) {
            return offer;
        }
    }
    return NULL;
}

/* Offers the request to a NIC handle of this process, if it listens. */
static void offer_to_local(struct lo_request *request, struct vipl_be_nic *be)
{
    struct lo_offer *offer = find_local_offer(request, be);
    if (offer == NULL && vipl_up_listens(be->core, &request->remote)) {
        offer = offer_new(request, -1, LO_NO_PLACE);
        if (offer != NULL) {
            offer->at = be;
        }
    }
    if (offer != NULL && offer->conn == NULL && vipl_lo_request_is_pending(request)) {
        hand_offer_to_core(offer);
    }
}

/* --- all offers of a request --- */

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
    return link != NULL && vipl_lo_link_is_confirmed(link) && offer_by_link(request, link);
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
        offer_to_local(request, VIPL_CONTAINER(l, struct vipl_be_nic, link));
    }
    uint64_t hash = vipl_lo_hash_of(&request->remote);
    struct lo_known *known = &lo_remote_of(request->nic)->known[hash % LO_KNOWN];
    bool is_known = !request->peer && at_first && known->hash == hash;
    if (is_known && offer_to_peer(request, known)) {
        return; /* other listeners get the request after FIRST_MS */
    }
    uint32_t user = vipl_local_user();
    uint32_t places =
        ~(vipl_lo_own_places(user, socket_kind(request), hash) | offered_places(request) | request->shunned);
    struct lo_name name;
    vipl_lo_name_begin(&name, user, socket_kind(request), hash);
    if (is_known && offer_to_places(request, &name, places & known->places, false) != 0) {
        return; /* as above */
    }
    (void)offer_to_places(request, &name, places & ~offered_places(request), request->peer && at_first);
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

/* An offer has ended without an answer, maybe the last one. An AT_ONCE request does not wait for
 * the next listener. */
static void offer_lost(struct lo_request *request)
{
    if (request->at_once) {
        schedule_offer(request, vipl_now_ns());
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
    schedule_offer(request, first_step_at(request));
    vipl_up_wake(remote->be->core); /* a sleeper does not know the new deadline */
    return VIP_SUCCESS;
}

static void end_all_offers(struct lo_request *request)
{
    while (!vipl_list_empty(&request->offers)) {
        offer_end(VIPL_CONTAINER(request->offers.next, struct lo_offer, link));
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
            offer_to_local(request, be);
        }
    }
}

void vipl_lo_offers_forget(struct vipl_be_nic *be, const struct vipl_address *local)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        struct lo_offer *offer = find_local_offer(request, be);
        if (offer == NULL) {
            continue;
        }
        /* An offer that core has may still be taken. */
        if (local == NULL ||
            (offer->conn == NULL && vipl_address_same_discriminator(&request->remote, local))) {
            offer_end(offer);
            offer_lost(request);
        }
    }
}

/* --- the claim word --- */

bool vipl_lo_request_is_pending(const struct lo_request *request)
{
    return lo_claim_state_of(vipl_lo_claim_read(&request->claim)) == LO_PENDING;
}

/* Tells all that have the request that it is PENDING again, and offers it to those that do not have
 * it. */
static void announce_pending(struct lo_request *request)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (offer_fd(offer) >= 0) {
            /* If this fails, the other end has gone, or has unread packets of the offer. */
            send_offer(offer, false);
        } else if (offer->conn == NULL) {
            hand_offer_to_core(offer);
        }
    }
    schedule_offer(request, vipl_now_ns());
}

void vipl_lo_request_available(struct lo_request *request)
{
    if (vipl_lo_claim_change(&request->claim, LO_BUSY, LO_PENDING)) {
        announce_pending(request);
    }
}

/* The offer of that number has ended: if a program has the request by it, the request becomes
 * PENDING again. */
static void release_claim(struct lo_request *request, unsigned number)
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

/* --- replies --- */

/* The other end has hung up. Its listener may still be there: the request is offered again after a
 * pause. */
static void on_listener_hang_up(struct lo_offer *offer)
{
    struct lo_request *request = offer->request;
    unsigned number = offer->number;
    bool asked_again = offer->place < LO_PLACES || offer->via != NULL;
    offer_end(offer);
    release_claim(request, number);
    if (asked_again) {
        schedule_offer(request, request->retry_at);
        request->retry_at = vipl_deadline(AGAIN_MS);
    }
}

/* The other end is of another kind or breaks the rules: its place gets no further offer of this
 * request. */
static void shun_listener(struct lo_offer *offer)
{
    struct lo_request *request = offer->request;
    unsigned number = offer->number;
    request->shunned |= offer->place < LO_PLACES ? UINT32_C(1) << offer->place : 0;
    offer_end(offer);
    release_claim(request, number);
    offer_lost(request);
}

/* Returns the link that an acceptance names, or makes the new one over the offer's socket. NULL: it
 * is not valid, or there are no resources. */
static struct lo_link *acceptance_link(struct lo_offer *offer, const struct lo_reply *reply, int fds[2])
{
    struct lo_remote *remote = lo_remote_of(offer->request->nic);
    if (!reply->new_link) {
        return vipl_lo_link_find(remote, NULL, reply->link);
    }
    struct lo_link *link =
        vipl_lo_link_attach(remote, offer->source.fd, fds[0], fds[1], reply->link, reply->slots, reply->nic);
    if (link != NULL) {
        fds[0] = fds[1] = -1; /* the link owns all three now */
        offer->source.fd = -1;
        vipl_lo_link_probe(link, &reply->mark);
        vipl_store_relaxed(&link->peer_direct_access, reply->direct_access ? 1 : 0);
    }
    return link;
}

/* Opens the session and sends LO_OPEN, after which the peer may send, and even end the connection:
 * rx is held until the VI is connected, so that nothing is received before. Returns false if
 * LO_OPEN cannot be sent. */
static bool start_session(struct lo_session *session, const struct lo_reply *reply)
{
    struct lo_link *link = session->link;
    struct lo_remote *remote = lo_remote_of(link->be);
    struct lo_message open = {
        .type = LO_OPEN,
        .session = reply->session,
        .total = session->number,
        .immediate = vipl_load_relaxed(&link->direct_access),
    };
    vipl_biased_lock(&remote->rx);
    vipl_lo_session_begin_locked(session);
    bool opened = vipl_lo_link_reply(link, &open);
    if (opened) {
        vipl_up_connected(session->vi, &reply->params);
    }
    vipl_biased_unlock(&remote->rx);
    if (!opened) {
        vipl_lo_session_forget(session);
    }
    return opened;
}

/* Remembers where the next request for this discriminator goes first; NULL: not by a link. */
static void remember_link(const struct lo_request *request, const struct lo_link *link)
{
    uint64_t hash = vipl_lo_hash_of(&request->remote);
    struct lo_known *known = &lo_remote_of(request->nic)->known[hash % LO_KNOWN];
    if (known->hash == hash) {
        known->link = link == NULL ? 0 : link->id;
    }
}

static void on_acceptance(struct lo_offer *offer, const struct lo_reply *reply, int fds[2])
{
    struct lo_request *request = offer->request;
    struct vipl_vi *vi = request->vi;
    struct lo_link *link = acceptance_link(offer, reply, fds);
    if (link != NULL && !request->peer) {
        remember_link(request, link);
    }
    struct lo_session *session =
        link == NULL ? NULL
                     : vipl_lo_session_open(link, vi, reply->session, &reply->params, reply->tag, NULL);
    vipl_lo_request_end(request);
    if (session == NULL || !start_session(session, reply)) {
        vipl_up_connect_failed(vi, VIP_ERROR_RESOURCE);
    }
}

static void fail_request(struct lo_request *request, VIP_RETURN rc)
{
    struct vipl_vi *vi = request->vi;
    vipl_lo_request_end(request);
    vipl_up_connect_failed(vi, rc);
}

/* Handles a reply. Only the program that has the request may answer, and the claim word says which
 * one that is. */
static void on_offer_reply(struct lo_offer *offer, const struct lo_reply *reply, int fds[2])
{
    uint32_t word = vipl_lo_claim_read(&offer->request->claim);
    enum lo_claim_state state =
        lo_claim_number_of(word) == offer->number ? lo_claim_state_of(word) : LO_ENDED;
    if (reply->type == LO_REPLY_ACCEPT && state == LO_ACCEPTED) {
        on_acceptance(offer, reply, fds);
    } else if (reply->type == LO_REPLY_REJECT && state == LO_TAKEN) {
        fail_request(offer->request, VIP_REJECT);
    } else if (reply->type == LO_REPLY_DISAGREE && state == LO_TAKEN && reply->code <= VIP_INTERRUPTED) {
        fail_request(offer->request, (VIP_RETURN)reply->code);
    } else {
        if (reply->type == LO_REPLY_REFUSED) {
            vipl_log(VIPL_LOG_ERROR,
                     "another process refused us: its loopback has version %u or another byte order",
                     reply->code);
        }
        shun_listener(offer);
    }
}

/* The other end sends one packet, which ends the offer. */
void vipl_lo_offer_event(struct lo_offer *offer)
{
    struct lo_reply reply;
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    int fds[2] = {-1, -1};
    int error = vipl_local_receive(offer->source.fd, bytes, sizeof(bytes), &length, fds);
    if (error == ECONNRESET) { /* reported once, before what has been received */
        error = vipl_local_receive(offer->source.fd, bytes, sizeof(bytes), &length, fds);
    }
    if (error == EAGAIN) {
        return;
    }
    if (error != 0 || length == 0) {
        on_listener_hang_up(offer);
    } else if (vipl_lo_reply_read(&reply, bytes, length)) {
        on_offer_reply(offer, &reply, fds);
    } else {
        shun_listener(offer);
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
}

/* --- control messages --- */

static struct lo_offer *find_offer(struct lo_link *via, const struct lo_reply *reply)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        if (request->nic != via->be || request->claim.slot != reply->slot ||
            request->claim.generation != reply->generation) {
            continue;
        }
        for (struct vipl_list *o = request->offers.next; o != &request->offers; o = o->next) {
            struct lo_offer *offer = VIPL_CONTAINER(o, struct lo_offer, link);
            if (offer->via == via && offer->number == reply->number) {
                return offer;
            }
        }
    }
    return NULL;
}

void vipl_lo_offer_answered(struct lo_link *via, const struct lo_reply *reply)
{
    int none[2] = {-1, -1};
    struct lo_offer *offer = find_offer(via, reply);
    if (offer == NULL) {
        return; /* the offer has ended */
    }
    offer->answered = true;
    if (reply->type == LO_REPLY_GONE) {
        remember_link(offer->request, NULL);
        on_listener_hang_up(offer);
    } else if (reply->new_link) {
        shun_listener(offer); /* there is a link already */
    } else {
        on_offer_reply(offer, reply, none);
    }
}

/* Starts from the first request after each offer that ends, because ending one may end others. */
void vipl_lo_offers_hang_up(struct lo_link *via)
{
    struct vipl_list *l = vipl_lo_registry.requests.next;
    while (l != &vipl_lo_registry.requests) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        struct lo_offer *found = NULL;
        for (struct vipl_list *o = request->offers.next; o != &request->offers && found == NULL;
             o = o->next) {
            struct lo_offer *offer = VIPL_CONTAINER(o, struct lo_offer, link);
            found = offer->via == via ? offer : NULL;
        }
        l = found == NULL ? l->next : vipl_lo_registry.requests.next;
        if (found != NULL) {
            found->answered = true;
            on_listener_hang_up(found);
        }
    }
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
        schedule_offer(request, request->socket == NULL ? vipl_deadline(AGAIN_MS) : VIPL_NO_DEADLINE);
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
                fail_request(request, VIP_NO_MATCH);
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
        vipl_lo_name_begin(&name, vipl_local_user(), socket_kind(request), vipl_lo_hash_of(&request->remote));
        (void)offer_to_places(request, &name, UINT32_C(1) << place, false);
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

/* --- the end of its time --- */

static bool has_offer_by_link(const struct lo_request *request)
{
    bool found = false;
    for (struct vipl_list *l = request->offers.next; l != &request->offers && !found; l = l->next) {
        found = VIPL_CONTAINER(l, struct lo_offer, link)->via != NULL;
    }
    return found;
}

/* Handles all replies that have come by now. */
static void receive_replies(struct vipl_vi *vi)
{
    struct lo_request *request = lo_vi_of(vi)->request;
    struct vipl_list *next;
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        next = l->next;
        if (offer->source.fd >= 0) {
            vipl_lo_offer_event(offer);
            if (lo_vi_of(vi)->request == NULL) {
                return;
            }
        }
    }
    if (has_offer_by_link(request)) {
        vipl_lo_links_read_sockets(lo_remote_of(request->nic));
        vipl_lo_control_read(lo_remote_of(request->nic));
    }
}

/* Returns the socket on which the reply of an acceptance is missing; -1: none is. */
static int reply_fd(const struct lo_request *request, uint32_t word)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        const struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (lo_claim_state_of(word) == LO_ACCEPTED && offer->number == lo_claim_number_of(word)) {
            return offer_fd(offer);
        }
    }
    return -1;
}

VIP_RETURN vipl_lo_offers_cancel(struct vipl_vi *vi, bool last, int *fd)
{
    receive_replies(vi);
    struct lo_request *request = lo_vi_of(vi)->request;
    if (request == NULL) {
        return VIP_SUCCESS; /* answered */
    }
    VIP_RETURN rc = VIP_TIMEOUT;
    uint32_t word;
    do {
        word = vipl_lo_claim_read(&request->claim);
        *fd = last ? -1 : reply_fd(request, word);
        if (*fd >= 0) {
            return VIP_NOT_DONE;
        }
    } while (lo_claim_state_of(word) != LO_ENDED && !vipl_lo_claim_move(&request->claim, word, LO_ENDED));
    bool met = !vipl_list_empty(&request->offers) || request->listener_full;
    if (request->matched != NULL) {
        rc = vipl_lo_incoming_unmatch(request->matched) ? VIP_SUCCESS : VIP_TIMEOUT;
    } else if (lo_claim_state_of(word) == LO_PENDING && !met) {
        rc = request->at_once && request->short_of ? VIP_ERROR_RESOURCE : VIP_NO_MATCH;
    }
    vipl_lo_request_end(request);
    return rc;
}
