/* SPDX-License-Identifier: MIT */
/*
 * Listeners, and requests that wait for a program. The function listens for a discriminator once;
 * which NIC handles of this process take requests for it is core's to know (vipl_up_listens()). A
 * request is offered to all of them, and the first to take it has it here. Other processes may have
 * it too: the card says which of them has it, when one of their programs is about to get it
 * (CLAIM).
 */
#include "backends/rnic/listen.h"

#include <string.h>

#include "backends/rnic/conn.h"
#include "backends/rnic/connect.h"
#include "backends/rnic/vi.h"
#include "base/deadline.h"
#include "base/log.h"

enum {
    READY_MS = 5000,  /* for READY, of a requester that lives: a busy machine may not run it sooner */
    REPEAT_MS = 2000, /* a requester sends its request again much sooner */
    NS_PER_MS = 1000000
};

/* Guarded by the registry, as everything in this file. */
struct rnic_listener {
    struct vipl_list link; /* device->listeners */
    struct vipl_address local;
    uint32_t object;
    unsigned users; /* NIC handles, and peer-to-peer requests */
};

/* A request. It lives until it is accepted or withdrawn; a rejected one until it is not repeated
 * any more. */
struct rnic_incoming {
    struct vipl_list link; /* device->incomings */
    struct vipl_rnic_peer peer;
    struct cm_message request;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_list offers;  /* rnic_offer.link */
    struct rnic_offer *taken; /* the offer that the program has taken; NULL: none */
    bool rejected;            /* a repetition that was under way is not a new request */
    uint64_t heard_at;        /* when the request has arrived last */
};

/* A request as it is offered to one NIC handle. */
struct rnic_offer {
    struct vipl_list link;
    struct rnic_incoming *incoming;
    struct rnic_nic *nic;
    struct vipl_conn *conn;
};

/* --- listeners --- */

static struct rnic_listener *find_listener(struct rnic_device *device, const struct vipl_address *local)
{
    for (struct vipl_list *l = device->listeners.next; l != &device->listeners; l = l->next) {
        struct rnic_listener *listener = VIPL_CONTAINER(l, struct rnic_listener, link);
        if (vipl_address_same_discriminator(&listener->local, local)) {
            return listener;
        }
    }
    return NULL;
}

static struct rnic_listener *listener_new(struct rnic_device *device, const struct vipl_address *local)
{
    struct rnic_listener *listener = vipl_zalloc(sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    listener->local = *local;
    listener->object = ++device->last_listener;
    int error = vipl_rnic_listen_for(device->rnic, listener->object, local->disc, local->disc_len);
    if (error != 0) {
        vipl_log(VIPL_LOG_ERROR, "rnic: the card does not listen for a name: %s", strerror(error));
        vipl_free(listener);
        return NULL;
    }
    vipl_list_append(&device->listeners, &listener->link);
    return listener;
}

struct rnic_listener *vipl_rnic_listener_get(struct rnic_device *device, const struct vipl_address *local)
{
    struct rnic_listener *listener = find_listener(device, local);
    if (listener == NULL) {
        listener = listener_new(device, local);
    }
    if (listener != NULL) {
        listener->users++;
    }
    return listener;
}

void vipl_rnic_listener_put(struct rnic_device *device, struct rnic_listener *listener)
{
    if (--listener->users > 0) {
        return;
    }
    (void)vipl_rnic_listen_end(device->rnic, listener->object, listener->local.disc,
                               listener->local.disc_len);
    vipl_list_remove(&listener->link);
    vipl_free(listener);
}

/* --- offers --- */

static void end_offer(struct rnic_offer *offer, bool gone)
{
    rnic_conn_of(offer->conn)->offer = NULL;
    if (gone) {
        vipl_up_conn_gone(offer->conn);
    }
    vipl_list_remove(&offer->link);
    vipl_free(offer);
}

/* No program has it any more. */
static void end_offers(struct rnic_incoming *incoming)
{
    while (!vipl_list_empty(&incoming->offers)) {
        end_offer(VIPL_CONTAINER(incoming->offers.next, struct rnic_offer, link), true);
    }
}

static void end_incoming(struct rnic_incoming *incoming)
{
    end_offers(incoming);
    vipl_list_remove(&incoming->link);
    vipl_free(incoming);
}

static bool has_offer(const struct rnic_incoming *incoming, const struct rnic_nic *nic)
{
    for (const struct vipl_list *l = incoming->offers.next; l != &incoming->offers; l = l->next) {
        if (VIPL_CONTAINER(l, struct rnic_offer, link)->nic == nic) {
            return true;
        }
    }
    return false;
}

static bool offer_to(struct rnic_incoming *incoming, struct rnic_nic *nic)
{
    struct rnic_offer *offer = vipl_zalloc(sizeof(*offer));
    struct vipl_conn *conn =
        offer == NULL
            ? NULL
            : vipl_up_conn_arrived(nic->core, &incoming->local, &incoming->remote, &incoming->request.params);
    if (conn == NULL) { /* too many requests wait there */
        vipl_free(offer);
        return false;
    }
    offer->incoming = incoming;
    offer->nic = nic;
    offer->conn = conn;
    vipl_list_append(&incoming->offers, &offer->link);
    rnic_conn_of(conn)->offer = offer;
    return true;
}

/* What is told of a request that came: that it waits, that there is no room for it, or that it is
 * for nobody. */
static uint8_t offer_to_all(struct rnic_device *device, struct rnic_incoming *incoming)
{
    uint8_t outcome = CM_NO_MATCH;
    for (struct vipl_list *l = device->nics.next; l != &device->nics; l = l->next) {
        struct rnic_nic *nic = VIPL_CONTAINER(l, struct rnic_nic, link);
        if (vipl_up_listens(nic->core, &incoming->local)) {
            outcome = offer_to(incoming, nic) || outcome == CM_PENDING ? CM_PENDING : CM_FULL;
        }
    }
    return outcome;
}

/* --- incoming requests --- */

static struct rnic_incoming *find_incoming(struct rnic_device *device, const struct vipl_rnic_peer *from)
{
    for (struct vipl_list *l = device->incomings.next; l != &device->incomings; l = l->next) {
        struct rnic_incoming *incoming = VIPL_CONTAINER(l, struct rnic_incoming, link);
        if (rnic_same_peer(&incoming->peer, from)) {
            return incoming;
        }
    }
    return NULL;
}

static void set_address(struct vipl_address *out, const uint8_t mac[6], const struct cm_discriminator *name)
{
    memset(out, 0, sizeof(*out));
    out->host_len = 6;
    memcpy(out->host, mac, 6);
    out->disc_len = name->length;
    memcpy(out->disc, name->bytes, name->length);
}

static struct rnic_incoming *incoming_new(struct rnic_device *device, const struct vipl_rnic_peer *from,
                                          const struct cm_message *message)
{
    struct rnic_incoming *incoming = vipl_zalloc(sizeof(*incoming));
    if (incoming != NULL) {
        incoming->peer = *from;
        incoming->request = *message;
        incoming->heard_at = vipl_now_ns();
        set_address(&incoming->local, vipl_rnic_query(device->rnic)->mac, &message->to);
        set_address(&incoming->remote, from->mac, &message->from);
        vipl_list_init(&incoming->offers);
        vipl_list_append(&device->incomings, &incoming->link);
    }
    return incoming;
}

/* The request that this one repeats; NULL: it is new. A VI has one request at a time: an older one
 * is over, even if its end has not been heard of. */
static struct rnic_incoming *find_repeated(struct rnic_device *device, const struct vipl_rnic_peer *from,
                                           uint32_t serial)
{
    struct rnic_incoming *incoming = find_incoming(device, from);
    if (incoming != NULL && incoming->request.serial != serial) {
        end_incoming(incoming);
        return NULL;
    }
    if (incoming != NULL) {
        incoming->heard_at = vipl_now_ns();
    }
    return incoming;
}

static uint8_t take_in(struct rnic_device *device, const struct vipl_rnic_peer *from,
                       const struct cm_message *message)
{
    struct rnic_incoming *incoming = find_repeated(device, from, message->serial);
    if (incoming != NULL) {
        return incoming->rejected ? CM_REJECTED : CM_PENDING;
    }
    incoming = incoming_new(device, from, message);
    uint8_t outcome = incoming == NULL ? CM_FULL : offer_to_all(device, incoming);
    if (incoming != NULL && outcome != CM_PENDING) {
        end_incoming(incoming);
    }
    return outcome;
}

void vipl_rnic_listen_request(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message)
{
    if (vipl_rnic_conn_accepting(device, from, message->serial) != NULL) {
        return; /* the request is repeated, and the ACCEPT is under way */
    }
    if (message->peer && vipl_rnic_connect_match(device, from, message)) {
        return;
    }
    uint8_t outcome = message->peer ? CM_NO_MATCH : take_in(device, from, message);
    vipl_rnic_conn_refuse(device, from, message->serial, outcome, VIP_SUCCESS);
}

void vipl_rnic_listen_cancel(struct rnic_device *device, const struct vipl_rnic_peer *from, uint32_t serial)
{
    struct rnic_incoming *incoming = find_incoming(device, from);
    if (incoming != NULL && incoming->request.serial == serial) {
        end_incoming(incoming);
    }
}

/* A request that a program has taken stays: the program notices when it answers. */
void vipl_rnic_listen_peer_lost(struct rnic_device *device, const uint8_t mac[6], uint16_t function)
{
    for (struct vipl_list *l = device->incomings.next, *next = l->next; l != &device->incomings;
         l = next, next = l->next) {
        struct rnic_incoming *incoming = VIPL_CONTAINER(l, struct rnic_incoming, link);
        if (incoming->taken == NULL && incoming->peer.function == function &&
            memcmp(incoming->peer.mac, mac, sizeof(incoming->peer.mac)) == 0) {
            end_incoming(incoming);
        }
    }
}

/* Drops requests that are not repeated any more: the requester has ended without a message. */
static void drop_stale(struct rnic_device *device)
{
    uint64_t now = vipl_now_ns();
    for (struct vipl_list *l = device->incomings.next, *next = l->next; l != &device->incomings;
         l = next, next = l->next) {
        struct rnic_incoming *incoming = VIPL_CONTAINER(l, struct rnic_incoming, link);
        if (incoming->taken == NULL && now - incoming->heard_at > (uint64_t)REPEAT_MS * NS_PER_MS) {
            end_incoming(incoming);
        }
    }
}

void vipl_rnic_listen_tear_down(struct rnic_device *device)
{
    while (!vipl_list_empty(&device->incomings)) {
        end_incoming(VIPL_CONTAINER(device->incomings.next, struct rnic_incoming, link));
    }
}

/* --- the operations --- */

/* Offers requests that arrived before this NIC handle listened, or while it had no room. */
static void offer_waiting(struct rnic_nic *nic)
{
    struct vipl_list *incomings = &nic->device->incomings;
    for (struct vipl_list *l = incomings->next; l != incomings; l = l->next) {
        struct rnic_incoming *incoming = VIPL_CONTAINER(l, struct rnic_incoming, link);
        if (incoming->taken == NULL && !incoming->rejected && !has_offer(incoming, nic) &&
            vipl_up_listens(nic->core, &incoming->local)) {
            (void)offer_to(incoming, nic);
        }
    }
}

VIP_RETURN vipl_rnic_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    bool listens = vipl_rnic_listener_get(nic->device, local) != NULL;
    if (listens) {
        offer_waiting(nic);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return listens ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

void vipl_rnic_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct rnic_device *device = rnic_nic_of(be)->device;
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    struct rnic_listener *listener = find_listener(device, local);
    if (listener != NULL) {
        vipl_rnic_listener_put(device, listener);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}

void vipl_rnic_conns_look(struct vipl_be_nic *be)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_rnic_progress(nic->rnic);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_rnic_conn_events(nic->device);
    drop_stale(nic->device);
    offer_waiting(nic);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}

/* The program has taken this offer: withdraws the other offers of the request in this process. */
static void keep_only(struct rnic_offer *offer)
{
    struct vipl_list *offers = &offer->incoming->offers;
    offer->incoming->taken = offer;
    for (struct vipl_list *l = offers->next, *next = l->next; l != offers; l = next, next = l->next) {
        struct rnic_offer *other = VIPL_CONTAINER(l, struct rnic_offer, link);
        if (other != offer) {
            end_offer(other, true);
        }
    }
}

/* A request that another process has is over here. If it comes again, that process has ended
 * without an answer. */
bool vipl_rnic_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    struct rnic_device *device = rnic_nic_of(be)->device;
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_rnic_conn_events(device); /* the requester may have ended */
    struct rnic_offer *offer = rnic_conn_of(conn)->offer;
    bool taken = offer != NULL &&
                 vipl_rnic_claim(device->rnic, &offer->incoming->peer, offer->incoming->request.serial) == 0;
    if (taken) {
        keep_only(offer);
    } else if (offer != NULL) {
        struct rnic_incoming *incoming = offer->incoming;
        end_offer(offer, false);
        end_incoming(incoming);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return taken;
}

/* Accepts the request for the VI, and frees the request. */
static bool accept_incoming(struct rnic_vi *rv, struct rnic_incoming *incoming)
{
    struct vipl_vi_params own;
    vipl_up_vi_params(rv->vi, &own);
    struct vipl_rnic_peer peer = incoming->peer;
    struct cm_message request = incoming->request;
    end_offer(incoming->taken, false);
    end_incoming(incoming);
    if (vipl_rnic_conn_accept(rv, &peer, &request, &own)) {
        return true;
    }
    vipl_rnic_conn_refuse(rnic_nic_of_vi(rv)->device, &peer, request.serial, CM_REJECTED, VIP_SUCCESS);
    vipl_rnic_vi_stop(rv);
    return false;
}

/* Waits for READY. VIP_TIMEOUT: the requester is gone. */
static VIP_RETURN await_ready(struct rnic_nic *nic, struct rnic_vi *rv)
{
    uint64_t deadline = vipl_deadline(READY_MS);
    bool waits;
    do {
        int ms = vipl_ms_left(deadline);
        if (ms > 0 && !vipl_up_await_connected(rv->vi, (uint32_t)ms)) {
            return VIP_TIMEOUT; /* this is a forked child, which core leaves at once */
        }
        vipl_mutex_lock(&vipl_rnic_registry.lock);
        waits = rv->state == RNIC_VI_ACCEPTING;
        if (waits && vipl_ms_left(deadline) == 0) {
            vipl_rnic_conn_notify(nic->device, &rv->peer, RNIC_CONTROL_DISCONNECT, rv->qp.number, rv->serial);
            vipl_rnic_conn_give_up(rv);
            waits = false;
        }
        bool connected = rv->was_connected;
        vipl_mutex_unlock(&vipl_rnic_registry.lock);
        if (connected) {
            return VIP_SUCCESS;
        }
    } while (waits);
    return VIP_TIMEOUT;
}

VIP_RETURN vipl_rnic_conn_accept_request(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct rnic_vi *rv = rnic_vi_of(vi);
    VIP_RETURN rc = vipl_rnic_vi_prepare(rv);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_rnic_conn_events(nic->device); /* the requester may have ended */
    struct rnic_offer *offer = rnic_conn_of(conn)->offer;
    bool asked = offer != NULL && accept_incoming(rv, offer->incoming);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return asked ? await_ready(nic, rv) : VIP_TIMEOUT;
}

void vipl_rnic_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    struct rnic_device *device = rnic_nic_of(be)->device;
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    struct rnic_offer *offer = rnic_conn_of(conn)->offer;
    if (offer != NULL) {
        struct rnic_incoming *incoming = offer->incoming;
        bool mine = incoming->taken == offer || incoming->taken == NULL;
        end_offer(offer, false);
        if (mine && answer) {
            end_offers(incoming);
            incoming->taken = NULL;
            incoming->rejected = true;
            vipl_rnic_conn_refuse(device, &incoming->peer, incoming->request.serial, CM_REJECTED,
                                  VIP_SUCCESS);
        } else if (mine && vipl_list_empty(&incoming->offers)) {
            end_incoming(incoming); /* the requester repeats it: another process may listen */
        }
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}
