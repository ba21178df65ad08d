/* SPDX-License-Identifier: MIT */
/*
 * Connecting within one process: requests meet listeners, and each other. Everything runs under the
 * registry's lock, so that a request has exactly one end: answered, cancelled, or gone.
 */
#include <string.h>

#include "backends/loopback/link.h"
#include "backends/loopback/loopback.h"
#include "backends/loopback/remote.h"
#include "backends/loopback/tx.h"
#include "base/lock_rank.h"

enum { IDLE_LISTENERS = 64 };

struct vipl_lo_registry vipl_lo_registry = {
    .lock = {0, VIPL_RANK_BACKEND},
    .nics = {&vipl_lo_registry.nics, &vipl_lo_registry.nics},
    .requests = {&vipl_lo_registry.requests, &vipl_lo_registry.requests},
};

void vipl_lo_registry_abandon(void)
{
    vipl_mutex_init(&vipl_lo_registry.lock, VIPL_RANK_BACKEND);
    vipl_list_init(&vipl_lo_registry.nics);
    vipl_list_init(&vipl_lo_registry.requests);
    vipl_lo_rendezvous_abandon();
}

bool vipl_lo_same_discriminator(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->disc_len == b->disc_len && memcmp(a->disc, b->disc, a->disc_len) == 0;
}

bool vipl_lo_same_address(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->host_len == b->host_len && memcmp(a->host, b->host, a->host_len) == 0 &&
           vipl_lo_same_discriminator(a, b);
}

/* --- requests --- */

void vipl_lo_request_end(struct lo_request *request)
{
    lo_vi_of(request->vi)->request = NULL;
    vipl_list_remove(&request->link);
    vipl_lo_walk_end(request);
    vipl_free(request);
}

static void set_peer(struct vipl_vi *vi, struct vipl_vi *peer)
{
    vipl_up_send_lock(vi);
    vipl_up_recv_lock(vi);
    lo_vi_of(vi)->peer = peer;
    vipl_up_recv_unlock(vi);
    vipl_up_send_unlock(vi);
}

/* The acceptor first: the requester may send as soon as it is told. */
static void join(struct vipl_vi *acceptor, const struct vipl_vi_params *acceptor_params,
                 struct lo_request *request)
{
    struct vipl_vi *requester = request->vi;
    struct vipl_vi_params requester_params = request->params;
    vipl_lo_request_end(request);
    set_peer(acceptor, requester);
    set_peer(requester, acceptor);
    vipl_up_connected(acceptor, &requester_params);
    vipl_up_connected(requester, acceptor_params);
}

struct lo_listener *vipl_lo_find_listener(struct vipl_be_nic *be, const struct vipl_address *wanted)
{
    for (struct vipl_list *l = be->listeners.next; l != &be->listeners; l = l->next) {
        struct lo_listener *listener = VIPL_CONTAINER(l, struct lo_listener, link);
        if (vipl_lo_same_discriminator(&listener->local, wanted)) {
            return listener;
        }
    }
    return NULL;
}

/* Puts the request before a listener of this process, where somebody waits now, or before one that is idle. */
static bool offer_to(struct lo_request *request, bool waiting)
{
    for (struct vipl_list *l = vipl_lo_registry.nics.next; l != &vipl_lo_registry.nics; l = l->next) {
        struct vipl_be_nic *be = VIPL_CONTAINER(l, struct vipl_be_nic, link);
        const struct lo_listener *listener = vipl_lo_find_listener(be, &request->remote);
        if (listener == NULL || (listener->waiting > 0) != waiting) {
            continue;
        }
        request->conn = vipl_up_conn_arrived(be->core, &request->remote, &request->local, &request->params);
        if (request->conn != NULL) {
            lo_conn_of(request->conn)->request = request;
            request->at = be;
            if (waiting) {
                vipl_lo_walk_end(request);
            }
            return true;
        }
    }
    return false;
}

/* True: somebody of this process waits for it. */
static bool match_client(struct lo_request *request)
{
    bool waited_for = offer_to(request, true);
    if (!waited_for) {
        offer_to(request, false);
    }
    return waited_for;
}

bool vipl_lo_request_leave(struct lo_request *request)
{
    const struct lo_listener *listener = vipl_lo_find_listener(request->at, &request->remote);
    bool idle = !request->taken && (listener == NULL || listener->waiting == 0);
    if (!idle || !vipl_up_conn_withdraw(request->conn)) {
        return false;
    }
    request->conn = NULL;
    return true;
}

void vipl_lo_request_drop_place(struct lo_request *request)
{
    if (request->conn != NULL) {
        lo_conn_of(request->conn)->request = NULL;
        vipl_up_conn_gone(request->conn);
        request->conn = NULL;
    }
}

/* Joins the request with another that asks for it, if there is one. True: it is over. */
static bool match_peer(struct lo_request *request)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *other = VIPL_CONTAINER(l, struct lo_request, link);
        if (other == request || !other->peer || other->matched != NULL ||
            !vipl_lo_same_address(&other->local, &request->remote) ||
            !vipl_lo_same_address(&other->remote, &request->local)) {
            continue;
        }
        VIP_RETURN rc = vipl_params_agree(&request->params, &other->params);
        struct vipl_vi *vi = request->vi;
        struct vipl_vi *other_vi = other->vi;
        struct vipl_vi_params params = request->params;
        vipl_lo_request_end(request);
        if (rc == VIP_SUCCESS) {
            join(vi, &params, other);
        } else {
            vipl_lo_request_end(other);
            vipl_up_connect_failed(vi, rc);
            vipl_up_connect_failed(other_vi, rc);
        }
        return true;
    }
    return false;
}

/* Nobody of this process waits for it: somebody of another one may. */
static VIP_RETURN look_outside(struct lo_request *request)
{
    return request->walk != NULL ? VIP_SUCCESS : vipl_lo_walk_begin(request);
}

/* Whether the request may be given a place of this process; it has none then. */
static bool is_free(struct lo_request *request)
{
    if (request->conn != NULL) {
        return vipl_lo_request_leave(request);
    }
    return request->walk == NULL || (!vipl_lo_walk_is_over(request) && vipl_lo_walk_leave(request));
}

static void match_again(struct lo_request *request)
{
    if (!vipl_lo_walk_hold(request)) {
        return;
    }
    if (is_free(request) && !match_client(request)) {
        look_outside(request); /* else it stays where it is now */
    }
    vipl_lo_walk_let_go(request);
}

/* Somebody waits there now: for what nobody waits for elsewhere. */
static void match_all(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct vipl_list *next;
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        next = l->next;
        bool here = request->conn != NULL && request->at == be;
        if (!request->peer && !here && vipl_lo_same_discriminator(&request->remote, local)) {
            match_again(request);
        }
    }
}

static bool is_waited_for(const struct vipl_address *wanted)
{
    for (struct vipl_list *l = vipl_lo_registry.nics.next; l != &vipl_lo_registry.nics; l = l->next) {
        const struct lo_listener *listener =
            vipl_lo_find_listener(VIPL_CONTAINER(l, struct vipl_be_nic, link), wanted);
        if (listener != NULL && listener->waiting > 0) {
            return true;
        }
    }
    return false;
}

/* Nobody waits there any more: what is queued there goes on looking. */
static void leave_all(struct vipl_be_nic *be, const struct vipl_address *local)
{
    bool waited_for = is_waited_for(local);
    struct vipl_list *next;
    vipl_lo_calls_idle(be, local);
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        next = l->next;
        if (request->conn == NULL || request->at != be || request->taken ||
            !vipl_lo_same_discriminator(&request->remote, local)) {
            continue;
        }
        if (waited_for) {
            match_again(request);
        } else {
            look_outside(request);
        }
    }
}

static struct lo_listener *add_listener(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_listener *listener = vipl_zalloc(sizeof(*listener));
    if (listener == NULL || vipl_lo_remote_listen(be, local) != VIP_SUCCESS) {
        vipl_free(listener);
        return NULL;
    }
    listener->local = *local;
    listener->nic = be;
    vipl_list_init(&listener->link);
    be->idle_listeners++;
    return listener;
}

VIP_RETURN vipl_lo_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_listener *listener = vipl_lo_find_listener(be, local);
    if (listener == NULL) {
        listener = add_listener(be, local);
    }
    if (listener != NULL) {
        be->idle_listeners -= listener->waiting++ == 0 ? 1 : 0;
        vipl_list_remove(&listener->link);
        vipl_list_append(&be->listeners, &listener->link);
        match_all(be, local);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    vipl_lo_remote_look(be); /* who has hung up is not to be found */
    return listener == NULL ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

/* A server that names each connection leaves many behind: the oldest that nobody waits on goes. */
static void drop_oldest_idle(struct vipl_be_nic *be)
{
    for (struct vipl_list *l = be->listeners.next; l != &be->listeners; l = l->next) {
        struct lo_listener *listener = VIPL_CONTAINER(l, struct lo_listener, link);
        if (listener->waiting == 0) {
            vipl_list_remove(&listener->link);
            vipl_lo_remote_unlisten(be, &listener->local);
            vipl_free(listener);
            be->idle_listeners--;
            return;
        }
    }
}

void vipl_lo_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_listener *listener = vipl_lo_find_listener(be, local);
    if (--listener->waiting == 0) {
        be->idle_listeners++;
        leave_all(be, local);
    }
    if (be->idle_listeners > IDLE_LISTENERS) {
        drop_oldest_idle(be);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

void vipl_lo_drop_listeners(struct vipl_be_nic *be)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(&be->listeners)) != NULL) {
        vipl_free(VIPL_CONTAINER(link, struct lo_listener, link));
    }
}

static bool is_this_host(const struct vipl_be_nic *be, const struct vipl_address *address)
{
    return address->host_len == be->address.host_len &&
           memcmp(address->host, be->address.host, address->host_len) == 0;
}

VIP_RETURN vipl_lo_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                           const struct vipl_address *remote, bool peer)
{
    if (!is_this_host(be, remote)) {
        return VIP_NOT_REACHABLE;
    }
    struct lo_request *request = vipl_zalloc(sizeof(*request));
    if (request == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    request->nic = be;
    request->vi = vi;
    request->local = *local;
    request->remote = *remote;
    request->peer = peer;
    vipl_up_vi_params(vi, &request->params);
    vipl_mutex_lock(&vipl_lo_registry.lock);
    lo_vi_of(vi)->request = request;
    vipl_list_append(&vipl_lo_registry.requests, &request->link);
    VIP_RETURN rc = VIP_SUCCESS;
    bool over = peer ? match_peer(request) : match_client(request);
    if (!over) {
        rc = look_outside(request);
        if (rc != VIP_SUCCESS && request->conn == NULL) {
            vipl_lo_request_end(request);
        } else {
            rc = VIP_SUCCESS; /* it has a place */
        }
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return rc;
}

VIP_RETURN vipl_lo_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    VIP_RETURN rc = VIP_SUCCESS; /* no request: it has been answered */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_request *request = lo_vi_of(vi)->request;
    if (request != NULL && vipl_lo_call_is_open(request)) {
        vipl_lo_request_end(request);
    } else if (request != NULL) {
        bool listener =
            request->conn != NULL || request->matched != NULL || vipl_lo_walk_met_listener(request);
        rc = listener ? VIP_TIMEOUT : VIP_NO_MATCH;
        vipl_lo_request_drop_place(request);
        vipl_lo_request_end(request);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return rc;
}

/* --- answers --- */

/* False: a program of another process has it, of which the walk hears. */
static bool take_here(struct vipl_conn *conn)
{
    struct lo_request *request = lo_conn_of(conn)->request;
    if (!vipl_lo_walk_hold(request)) {
        lo_conn_of(conn)->request = NULL;
        request->conn = NULL;
        return false;
    }
    request->taken = true;
    vipl_lo_walk_end(request);
    return true;
}

bool vipl_lo_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    bool taken = false; /* the requester has gone */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->request != NULL) {
        taken = take_here(conn);
    } else if (lo_conn_of(conn)->call != NULL) {
        taken = vipl_lo_call_taken(lo_conn_of(conn)->call);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return taken;
}

VIP_RETURN vipl_lo_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    VIP_RETURN rc = VIP_TIMEOUT; /* the requester has gone */
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_conn *lo = lo_conn_of(conn);
    if (lo->request != NULL) {
        struct vipl_vi_params params;
        vipl_up_vi_params(vi, &params);
        join(vi, &params, lo->request);
        lo->request = NULL;
        rc = VIP_SUCCESS;
    } else if (lo->call != NULL) {
        rc = vipl_lo_call_accept(be, lo->call, vi); /* releases and retakes the lock */
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return rc;
}

void vipl_lo_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_conn *lo = lo_conn_of(conn);
    if (lo->request != NULL) {
        struct vipl_vi *vi = lo->request->vi;
        vipl_lo_request_end(lo->request);
        lo->request = NULL;
        if (answer) {
            vipl_up_connect_failed(vi, VIP_REJECT);
        }
    } else if (lo->call != NULL) {
        vipl_lo_call_reject(lo->call);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

/* --- the end of a connection within the process --- */

/* Cuts the VI from its peer, which has lost its connection then. */
static void cut(struct vipl_vi *vi)
{
    vipl_up_send_lock(vi);
    vipl_up_recv_lock(vi);
    struct vipl_vi *peer = lo_vi_of(vi)->peer;
    lo_vi_of(vi)->peer = NULL;
    vipl_up_recv_unlock(vi);
    vipl_up_send_unlock(vi);
    if (peer == NULL) {
        return;
    }
    vipl_up_send_lock(peer);
    vipl_up_recv_lock(peer);
    if (lo_vi_of(peer)->peer == vi) {
        lo_vi_of(peer)->peer = NULL;
        vipl_up_fail(peer, VIP_ERROR_CONN_LOST);
    }
    vipl_up_recv_unlock(peer);
    vipl_up_send_unlock(peer);
}

void vipl_lo_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_vi_of(vi)->request != NULL) { /* connected from outside, and not yet tidied up */
        vipl_lo_request_end(lo_vi_of(vi)->request);
    }
    cut(vi);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    vipl_lo_session_end(be, vi);
}
