/* SPDX-License-Identifier: MIT */
#include "backends/loopback/replies.h"

#include <errno.h>

#include "backends/loopback/calls.h"
#include "backends/loopback/claims.h"
#include "backends/loopback/control.h"
#include "backends/loopback/names.h"
#include "backends/loopback/offers.h"
#include "backends/loopback/tx.h"
#include "base/deadline.h"
#include "base/log.h"
#include "os/os_atomic.h"

/* The other end has hung up. Its listener may still be there: the request is offered again after a
 * pause. */
static void on_listener_hang_up(struct lo_offer *offer)
{
    struct lo_request *request = offer->request;
    unsigned number = offer->number;
    bool asked_again = offer->place < LO_PLACES || offer->via != NULL;
    vipl_lo_offer_end(offer);
    vipl_lo_request_release(request, number);
    if (asked_again) {
        vipl_lo_request_schedule(request, request->retry_at);
        request->retry_at = vipl_deadline(LO_AGAIN_MS);
    }
}

/* The other end is of another kind or breaks the rules: its place gets no further offer of this
 * request. */
static void shun_listener(struct lo_offer *offer)
{
    struct lo_request *request = offer->request;
    unsigned number = offer->number;
    request->shunned |= offer->place < LO_PLACES ? UINT32_C(1) << offer->place : 0;
    vipl_lo_offer_end(offer);
    vipl_lo_request_release(request, number);
    vipl_lo_offer_lost(request);
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
        vipl_lo_request_fail(offer->request, VIP_REJECT);
    } else if (reply->type == LO_REPLY_DISAGREE && state == LO_TAKEN && reply->code <= VIP_INTERRUPTED) {
        vipl_lo_request_fail(offer->request, (VIP_RETURN)reply->code);
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
            return lo_offer_fd(offer);
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
