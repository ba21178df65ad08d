/* SPDX-License-Identifier: MIT */
/*
 * Connecting: the operations of the contract, and how two VIs of one process come together. Everything runs under the
 * registry's lock, so that a request has exactly one end: answered, cancelled, or gone.
 */
#include "backends/loopback/connect.h"

#include "backends/loopback/calls.h"
#include "backends/loopback/claims.h"
#include "backends/loopback/link.h"
#include "backends/loopback/names.h"
#include "backends/loopback/offers.h"
#include "backends/loopback/tx.h"
#include "base/lock_rank.h"
#include "os/os_atomic.h"

enum { LAST_WORD_MS = 1000 }; /* for a reply that is on its way when the time is up */

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
    vipl_lo_setup_abandon();
}

bool vipl_lo_same_address(const struct vipl_address *a, const struct vipl_address *b)
{
    return vipl_address_same_host(a, b) && vipl_address_same_discriminator(a, b);
}

/* --- listening --- */

VIP_RETURN vipl_lo_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_notices notices;
    uint64_t hash = vipl_lo_hash_of(local);
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_remote *remote = vipl_lo_prepare(be);
    const struct lo_socket *s = remote == NULL ? NULL : vipl_lo_socket_open(remote, 'w', hash);
    if (s != NULL) { /* first the name, then the notices: a requester that comes between finds the name */
        vipl_lo_offers_look(be);
        vipl_lo_notices_send(&notices, hash, s->place);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    if (s == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_lo_notices_await(&notices);
    return VIP_SUCCESS;
}

void vipl_lo_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_remote *remote = vipl_load_ptr(&be->remote);
    vipl_lo_socket_close(remote, vipl_lo_socket_find(remote, 'w', vipl_lo_hash_of(local)));
    vipl_lo_offers_forget(be, local);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

void vipl_lo_conns_look(struct vipl_be_nic *be)
{
    struct lo_remote *remote = vipl_load_ptr(&be->remote);
    if (remote != NULL) {
        vipl_lo_listeners_rename(remote);
        vipl_lo_setup_look(remote, true);
    }
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_lo_offers_look(be);
    if (remote != NULL) {
        vipl_lo_incomings_look(remote);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

/* --- requests --- */

void vipl_lo_request_end(struct lo_request *request)
{
    lo_vi_of(request->vi)->request = NULL;
    vipl_list_remove(&request->link);
    vipl_lo_offers_end(request);
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

/* Both are ours and PENDING: while they are BUSY no other process gets one of them. */
static bool take_both(struct lo_request *request, struct lo_request *other)
{
    uint32_t word = vipl_lo_claim_read(&other->claim);
    if (lo_claim_state_of(word) != LO_PENDING || !vipl_lo_claim_move(&other->claim, word, LO_BUSY)) {
        return false;
    }
    word = vipl_lo_claim_read(&request->claim);
    if (lo_claim_state_of(word) == LO_PENDING && vipl_lo_claim_move(&request->claim, word, LO_BUSY)) {
        return true;
    }
    vipl_lo_request_available(other);
    return false;
}

static void meet(struct lo_request *request, struct lo_request *other)
{
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
}

bool vipl_lo_request_meet(struct lo_request *request)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *other = VIPL_CONTAINER(l, struct lo_request, link);
        if (other != request && other->peer && vipl_lo_same_address(&other->local, &request->remote) &&
            vipl_lo_same_address(&other->remote, &request->local) && take_both(request, other)) {
            meet(request, other);
            return true;
        }
    }
    return vipl_lo_incomings_meet(request);
}

VIP_RETURN vipl_lo_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                           const struct vipl_address *remote, bool peer)
{
    if (!vipl_address_same_host(remote, &be->address)) {
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
    VIP_RETURN rc = vipl_lo_offers_begin(request);
    if (rc == VIP_SUCCESS) {
        lo_vi_of(vi)->request = request;
        vipl_list_append(&vipl_lo_registry.requests, &request->link);
        if (peer) {
            vipl_lo_request_meet(request);
        }
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    if (rc != VIP_SUCCESS) {
        vipl_free(request);
    }
    return rc;
}

/* What wakes it may come to another thread, or never: it looks itself. */
static void await_reply(int fd, uint64_t deadline)
{
    uint64_t now = vipl_now_ns();
    int ms = now >= deadline ? 0 : (int)((deadline - now) / 1000000) + 1;
    vipl_poll(&fd, 1, ms, NULL);
}

VIP_RETURN vipl_lo_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    uint64_t deadline = vipl_lo_in_ms(LAST_WORD_MS);
    uint32_t generation = vipl_fork_generation();
    VIP_RETURN rc = VIP_NOT_DONE;
    (void)be;
    while (rc == VIP_NOT_DONE && vipl_fork_generation() == generation) {
        int fd = -1;
        vipl_mutex_lock(&vipl_lo_registry.lock);
        bool answered = lo_vi_of(vi)->request == NULL;
        rc = answered ? VIP_SUCCESS : vipl_lo_offers_cancel(vi, vipl_now_ns() >= deadline, &fd);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        if (rc == VIP_NOT_DONE) {
            await_reply(fd, deadline);
        }
    }
    return rc == VIP_NOT_DONE ? VIP_TIMEOUT : rc; /* not done: a forked child, which core leaves at once */
}

/* --- answers --- */

/* Core drops its part of what another program has. */
static bool take_here(struct lo_offer *offer)
{
    struct vipl_conn *conn = offer->conn;
    bool taken = lo_claim_take(offer->request->claim.word, offer->request->claim.generation, offer->number);
    if (!taken) {
        lo_conn_of(conn)->offer = NULL;
        offer->conn = NULL;
    }
    return taken;
}

bool vipl_lo_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    bool taken = false; /* the requester has gone */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        taken = take_here(lo_conn_of(conn)->offer);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        taken = vipl_lo_incoming_taken(lo_conn_of(conn)->incoming);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return taken;
}

static VIP_RETURN accept_here(struct lo_offer *offer, struct vipl_vi *vi)
{
    struct lo_request *request = offer->request;
    struct vipl_vi_params params;
    if (!lo_claim_accept(request->claim.word, request->claim.generation, offer->number)) {
        return VIP_TIMEOUT;
    }
    vipl_up_vi_params(vi, &params);
    join(vi, &params, request);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_lo_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    VIP_RETURN rc = VIP_TIMEOUT; /* the requester has gone */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        rc = accept_here(lo_conn_of(conn)->offer, vi);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        rc = vipl_lo_incoming_accept(lo_conn_of(conn)->incoming, vi); /* releases and retakes the lock */
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return rc;
}

/* It may be that no program here has it: the NIC handle is closing. */
static void reject_here(struct lo_offer *offer)
{
    struct lo_request *request = offer->request;
    struct vipl_vi *vi = request->vi;
    uint32_t taken = lo_claim_word(request->claim.generation, LO_TAKEN, offer->number);
    if (vipl_lo_claim_read(&request->claim) == taken || take_here(offer)) {
        vipl_lo_request_end(request);
        vipl_up_connect_failed(vi, VIP_REJECT);
    }
}

void vipl_lo_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    (void)be;
    (void)answer; /* one that has gone is not named any more */
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        reject_here(lo_conn_of(conn)->offer);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        vipl_lo_incoming_reject(lo_conn_of(conn)->incoming);
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
