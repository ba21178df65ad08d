/* SPDX-License-Identifier: MIT */
#include "backends/loopback/offer.h"

#include <errno.h>

#include "backends/loopback/claims.h"
#include "base/deadline.h"

bool vipl_lo_request_is_pending(const struct lo_request *request)
{
    return lo_claim_state_of(vipl_lo_claim_read(&request->claim)) == LO_PENDING;
}

void vipl_lo_request_schedule(struct lo_request *request, uint64_t at)
{
    request->step_at = at < request->step_at ? at : request->step_at;
    lo_set_timed(lo_remote_of(request->nic));
}

/* There were no resources for an offer. A listener may have been missed, and is asked later. */
static void offer_failed(struct lo_request *request)
{
    request->short_of = true;
    vipl_lo_request_schedule(request, vipl_deadline(LO_AGAIN_MS));
}

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
    (void)vipl_local_send(lo_offer_fd(offer), bytes, vipl_lo_reply_write(&reply, bytes), NULL, 0);
}

void vipl_lo_offer_end(struct lo_offer *offer)
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

bool vipl_lo_offer_send(const struct lo_offer *offer, bool with_fds)
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
    return vipl_local_send(lo_offer_fd(offer), bytes, length, fds, with_fds ? 2 : 0) == 0;
}

/* Offers the request over a connected socket, which belongs to the offer from now on, or is
 * closed. */
static void offer_by_socket(struct lo_request *request, int fd, unsigned place)
{
    struct lo_offer *offer = offer_new(request, fd, place);
    if (offer == NULL) {
        vipl_fd_close(fd);
    } else if (vipl_pollset_add(&lo_remote_of(request->nic)->setup, fd, &offer->source) != 0 ||
               !vipl_lo_offer_send(offer, true)) {
        vipl_lo_offer_end(offer);
        offer_failed(request);
    }
}

bool vipl_lo_offer_by_link(struct lo_request *request, struct lo_link *link)
{
    struct lo_offer *offer = offer_new(request, -1, LO_NO_PLACE);
    if (offer == NULL) {
        return false;
    }
    offer->via = link;
    if (!vipl_lo_offer_send(offer, !link->claims_sent)) {
        offer->answered = true; /* the peer does not have the offer */
        vipl_lo_offer_end(offer);
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

uint32_t vipl_lo_offer_to_places(struct lo_request *request, struct lo_name *name, uint32_t places, bool once)
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

void vipl_lo_offer_hand(struct lo_offer *offer)
{
    const struct lo_request *request = offer->request;
    offer->conn = vipl_up_conn_arrived(offer->at->core, &request->remote, &request->local, &request->params);
    if (offer->conn != NULL) {
        lo_conn_of(offer->conn)->offer = offer;
    } /* else the next VipConnectWait() of the NIC handle tries again */
}

struct lo_offer *vipl_lo_offer_find_local(const struct lo_request *request, const struct vipl_be_nic *be)
{
    for (struct vipl_list *l = request->offers.next; l != &request->offers; l = l->next) {
        struct lo_offer *offer = VIPL_CONTAINER(l, struct lo_offer, link);
        if (offer->at == be) {
            return offer;
        }
    }
    return NULL;
}

void vipl_lo_offer_to_local(struct lo_request *request, struct vipl_be_nic *be)
{
    struct lo_offer *offer = vipl_lo_offer_find_local(request, be);
    if (offer == NULL && vipl_up_listens(be->core, &request->remote)) {
        offer = offer_new(request, -1, LO_NO_PLACE);
        if (offer != NULL) {
            offer->at = be;
        }
    }
    if (offer != NULL && offer->conn == NULL && vipl_lo_request_is_pending(request)) {
        vipl_lo_offer_hand(offer);
    }
}
