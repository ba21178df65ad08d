/* SPDX-License-Identifier: MIT */
/*
 * The operations of the contract: the device with its settings, limits and names; connecting, also
 * of two VIs of one process. Everything about connecting runs under the registry's lock, so that a
 * request ends in exactly one way: it is answered, cancelled, or its requester has gone.
 */
#include "backends/loopback/loopback.h"

#include <stddef.h>
#include <string.h>

#include "backends/loopback/calls.h"
#include "backends/loopback/claims.h"
#include "backends/loopback/direct.h"
#include "backends/loopback/exports.h"
#include "backends/loopback/inproc.h"
#include "backends/loopback/link.h"
#include "backends/loopback/names.h"
#include "backends/loopback/offers.h"
#include "backends/loopback/poll_filter.h"
#include "backends/loopback/replies.h"
#include "backends/loopback/tx.h"
#include "base/config.h"
#include "base/deadline.h"
#include "base/hostname.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "base/pool.h"
#include "os/os_atomic.h"

enum {
    MAX_INLINE_MAPPABLE = 2048 /* measured: above this, fetching is faster than two copies */
};
enum { LAST_WORD_MS = 1000 }; /* the wait for a reply that is on its way when the time is up */

struct vipl_lo_registry vipl_lo_registry = {
    .lock = VIPL_MUTEX_INIT(VIPL_RANK_BACKEND),
    .nics = {&vipl_lo_registry.nics, &vipl_lo_registry.nics},
    .requests = {&vipl_lo_registry.requests, &vipl_lo_registry.requests},
};

static void make_nic(void *object)
{
    struct vipl_be_nic *be = object;
    vipl_mutex_init(&be->exports_lock, VIPL_RANK_BACKEND_MEM);
    be->poll_filter.poll = vipl_lo_poll_fast;
}

static struct vipl_pool nic_pool = VIPL_POOL_INIT(nic_pool, struct vipl_be_nic, link, make_nic);

static void lo_abandon(void)
{
    vipl_pool_abandon(&nic_pool);
    vipl_lo_remotes_abandon();
    vipl_mutex_init(&vipl_lo_registry.lock, VIPL_RANK_BACKEND);
    vipl_list_init(&vipl_lo_registry.nics);
    vipl_list_init(&vipl_lo_registry.requests);
    /* a forked child gets an identity of its own */
    memset(vipl_lo_process_uid, 0, sizeof(vipl_lo_process_uid));
}

/* --- the device --- */

/* IPv4 and two zero bytes: programs expect 6 */
static const uint8_t host_address[6] = {127, 0, 0, 1, 0, 0};

static VIP_RETURN lo_open(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out)
{
    /* in the order of the setting's words */
    static const enum lo_rendezvous pull[] = {LO_RENDEZVOUS_AUTO, LO_RENDEZVOUS_ON, LO_RENDEZVOUS_OFF};
    if (device[0] != '\0') { /* there is one loopback device, without instances */
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_be_nic *be = vipl_pool_get(&nic_pool);
    if (be == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    memset((char *)be + offsetof(struct vipl_be_nic, core), 0,
           sizeof(*be) - offsetof(struct vipl_be_nic, core));
    vipl_lo_filter_close(be);
    be->core = nic;
    be->exports.fd = -1;
    be->settings_rendezvous = pull[vipl_config_word("VIPL_LOOPBACK_PULL")];
    be->settings_inline = vipl_config_number("VIPL_LOOPBACK_INLINE");
    be->settings_inline_mappable =
        be->settings_inline < MAX_INLINE_MAPPABLE ? be->settings_inline : MAX_INLINE_MAPPABLE;
    be->settings_ring = vipl_config_number("VIPL_LOOPBACK_RING");
    be->address.host_len = sizeof(host_address);
    memcpy(be->address.host, host_address, sizeof(host_address));
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_list_append(&vipl_lo_registry.nics, &be->link);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    *out = be;
    return VIP_SUCCESS;
}

static void lo_close(struct vipl_be_nic *be)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_list_remove(&be->link);
    vipl_lo_offers_forget(be, NULL);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    vipl_lo_remote_close(be);
    vipl_shm_release(&be->exports);
    vipl_pool_put(&nic_pool, be);
}

static void lo_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    (void)be;
    *out = (struct vipl_limits){
        .max_register_bytes = UINT64_MAX / 2,
        .max_block_bytes = UINTPTR_MAX / 2,
        .max_regions = 1u << 20,
        .max_vis = 131072,
        .max_descriptors = 65536,
        .max_segments = VIPL_MAX_SEGMENTS,
        .max_cqs = 65536,
        .max_cq_entries = 1u << 20,
        .max_transfer_size = 4u << 20,
        .native_mtu = 65536,
        .max_ptags = 65536,
        .max_pending_connects = 1024,
        .max_discriminator = VIPL_MAX_DISCRIMINATOR,
        .reliability_levels =
            VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .rdma_read_levels = VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .hardware_version = 0,
    };
}

static void lo_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    *out = be->address;
}

static VIP_RETURN lo_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                             struct vipl_address *out)
{
    /* The name may be the text of the address. */
    bool own = strcmp(name, "127.0.0.1") == 0 || vipl_hostname_is_own(name);
    if (index > 0 || !own) {
        vipl_log(VIPL_LOG_REASON, "loopback: \"%s\" is not this host", name);
        return VIP_ERROR_NAMESERVICE;
    }
    *out = be->address;
    return VIP_SUCCESS;
}

static VIP_RETURN lo_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size)
{
    if (host->host_len != be->address.host_len || memcmp(host->host, be->address.host, host->host_len) != 0 ||
        vipl_host_name(name, size) != 0) {
        return VIP_ERROR_NAMESERVICE;
    }
    return VIP_SUCCESS;
}

/* --- listening --- */

static VIP_RETURN lo_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_notices notices;
    uint64_t hash = vipl_lo_hash_of(local);
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_remote *remote = vipl_lo_prepare(be);
    const struct lo_socket *s = remote == NULL ? NULL : vipl_lo_socket_open(remote, 'w', hash);
    /* the name comes before the notices: a requester that comes between them finds the name */
    if (s != NULL) {
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

static void lo_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    struct lo_remote *remote = lo_remote_of(be);
    vipl_lo_socket_close(remote, vipl_lo_socket_find(remote, 'w', vipl_lo_hash_of(local)));
    vipl_lo_offers_forget(be, local);
    vipl_lo_incomings_forget(remote, local);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

static void lo_conns_look(struct vipl_be_nic *be)
{
    struct lo_remote *remote = lo_remote_of(be);
    if (remote != NULL) {
        vipl_lo_listeners_rename(remote);
        vipl_lo_setup_progress_all(remote);
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

/* Connects two VIs of this process, and ends the request. The acceptor becomes connected first,
 * because the requester may send as soon as it is connected. */
static void connect_local(struct vipl_vi *acceptor, const struct vipl_vi_params *acceptor_params,
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

/* Makes two requests of this process BUSY, so that no other process can claim one of them. Returns
 * false if one was not PENDING; then neither is BUSY. */
static bool claim_both(struct lo_request *request, struct lo_request *other)
{
    if (!vipl_lo_claim_change(&other->claim, LO_PENDING, LO_BUSY)) {
        return false;
    }
    if (vipl_lo_claim_change(&request->claim, LO_PENDING, LO_BUSY)) {
        return true;
    }
    vipl_lo_request_available(other);
    return false;
}

/* Ends two BUSY symmetric requests: connects their VIs, or fails both. */
static void match_requests(struct lo_request *request, struct lo_request *other)
{
    VIP_RETURN rc = vipl_params_agree(&request->params, &other->params);
    struct vipl_vi *vi = request->vi;
    struct vipl_vi *other_vi = other->vi;
    struct vipl_vi_params params = request->params;
    vipl_lo_request_end(request);
    if (rc == VIP_SUCCESS) {
        connect_local(vi, &params, other);
    } else {
        vipl_lo_request_end(other);
        vipl_up_connect_failed(vi, rc);
        vipl_up_connect_failed(other_vi, rc);
    }
}

bool vipl_lo_request_match(struct lo_request *request)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *other = VIPL_CONTAINER(l, struct lo_request, link);
        if (other != request && other->peer && lo_same_address(&other->local, &request->remote) &&
            lo_same_address(&other->remote, &request->local) && claim_both(request, other)) {
            match_requests(request, other);
            return true;
        }
    }
    return vipl_lo_incomings_match(request);
}

static VIP_RETURN lo_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                             const struct vipl_address *remote, enum vipl_connect_kind kind)
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
    request->peer = kind == VIPL_CONNECT_PEER;
    request->at_once = kind == VIPL_CONNECT_AT_ONCE;
    vipl_up_vi_params(vi, &request->params);
    vipl_mutex_lock(&vipl_lo_registry.lock);
    VIP_RETURN rc = vipl_lo_offers_begin(request);
    if (rc == VIP_SUCCESS) {
        lo_vi_of(vi)->request = request;
        vipl_list_append(&vipl_lo_registry.requests, &request->link);
        if (request->peer) {
            vipl_lo_request_match(request);
        }
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    if (rc != VIP_SUCCESS) {
        vipl_free(request);
    }
    return rc;
}

static VIP_RETURN lo_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn)
{
    uint64_t deadline = vipl_deadline(LAST_WORD_MS);
    uint32_t generation = vipl_fork_generation();
    VIP_RETURN rc = VIP_NOT_DONE;
    (void)be;
    /* waits in any case: the reply is on its way, and the other side is connected */
    (void)withdrawn;
    while (rc == VIP_NOT_DONE && vipl_fork_generation() == generation) {
        int fd = -1;
        vipl_mutex_lock(&vipl_lo_registry.lock);
        bool answered = lo_vi_of(vi)->request == NULL;
        rc = answered ? VIP_SUCCESS : vipl_lo_offers_cancel(vi, vipl_now_ns() >= deadline, &fd);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        if (rc == VIP_NOT_DONE) {
            /* another thread may take the reply: check again */
            vipl_poll(&fd, 1, vipl_ms_left(deadline), NULL);
        }
    }
    /* VIP_NOT_DONE: a forked child, which leaves core at once */
    return rc == VIP_NOT_DONE ? VIP_TIMEOUT : rc;
}

/* --- answers --- */

/* Claims a request by an offer within this process. If another program has it, core drops its
 * part. */
static bool claim_offer(struct lo_offer *offer)
{
    struct vipl_conn *conn = offer->conn;
    bool taken = lo_claim_take(offer->request->claim.word, offer->request->claim.generation, offer->number);
    if (!taken) {
        lo_conn_of(conn)->offer = NULL;
        offer->conn = NULL;
    }
    return taken;
}

static bool lo_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    bool taken = false; /* the requester has gone */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        taken = claim_offer(lo_conn_of(conn)->offer);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        taken = vipl_lo_incoming_taken(lo_conn_of(conn)->incoming);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return taken;
}

static VIP_RETURN accept_offer(struct lo_offer *offer, struct vipl_vi *vi)
{
    struct lo_request *request = offer->request;
    struct vipl_vi_params params;
    if (!lo_claim_accept(request->claim.word, request->claim.generation, offer->number)) {
        return VIP_TIMEOUT;
    }
    vipl_up_vi_params(vi, &params);
    connect_local(vi, &params, request);
    return VIP_SUCCESS;
}

static VIP_RETURN lo_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    VIP_RETURN rc = VIP_TIMEOUT; /* the requester has gone */
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        rc = accept_offer(lo_conn_of(conn)->offer, vi);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        /* releases and retakes the lock */
        rc = vipl_lo_incoming_accept(lo_conn_of(conn)->incoming, vi);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    return rc;
}

/* Rejects a request of this process, or leaves it to other listeners: the offer then ends with the
 * listener. */
static void reject_offer(struct lo_offer *offer, bool answer)
{
    struct lo_request *request = offer->request;
    struct vipl_vi *vi = request->vi;
    lo_conn_of(offer->conn)->offer = NULL;
    offer->conn = NULL; /* core frees it */
    if (answer) {
        vipl_lo_request_end(request);
        vipl_up_connect_failed(vi, VIP_REJECT);
    }
}

static void lo_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    (void)be;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    if (lo_conn_of(conn)->offer != NULL) {
        reject_offer(lo_conn_of(conn)->offer, answer);
    } else if (lo_conn_of(conn)->incoming != NULL) {
        vipl_lo_incoming_reject(lo_conn_of(conn)->incoming, answer);
    }
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

/* --- the end of a connection within the process --- */

/* Ends the VI's connection within this process, if it has one, and fails the peer's end. The
 * registry's lock is held. */
static void disconnect_local(struct vipl_vi *vi)
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

static void lo_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    /* connected by another process; the request is not ended yet */
    if (lo_vi_of(vi)->request != NULL) {
        vipl_lo_request_end(lo_vi_of(vi)->request);
    }
    disconnect_local(vi);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    vipl_lo_session_end(be, vi);
}

/* --- VIs --- */

static VIP_RETURN lo_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
    return VIP_SUCCESS; /* an idle VI needs nothing of the backend */
}

static void lo_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
}

static struct vipl_poll_filter *lo_poll_filter(struct vipl_be_nic *be)
{
    return &be->poll_filter;
}

static enum vipl_posted lo_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct lo_vi *lo = lo_vi_of(vi);
    (void)be;
    if (lo->peer != NULL) {
        return vipl_lo_local_send(vi, lo->peer, send);
    }
    if (lo->session != NULL) {
        return vipl_lo_session_send(vi, lo->session, send);
    }
    return VIPL_POSTED_AGAIN; /* the connection has just ended; core flushes the send */
}

static bool lo_send_short(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                          bool has_unreaped)
{
    (void)has_unreaped;
    struct lo_vi *lo = lo_vi_of(vi);
    (void)be;
    if (lo->peer != NULL) {
        return vipl_lo_local_send_short(lo->peer, from, bytes);
    }
    return lo->session != NULL && vipl_lo_session_send_short(lo->session, from, bytes);
}

static bool lo_rdma_short(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_rdma *rdma)
{
    struct lo_vi *lo = lo_vi_of(vi);
    (void)be;
    if (lo->peer != NULL) {
        return vipl_lo_local_rdma_short(vi, lo->peer, rdma);
    }
    return lo->session != NULL && vipl_lo_direct_short(lo->session, rdma);
}

static void lo_list(struct vipl_device_list *to)
{
    vipl_device_add(to, "", "the threads and processes of this host");
}

const struct vipl_backend vipl_loopback_ops = {
    .name = "loopback",
    .list = lo_list,
    .open = lo_open,
    .close = lo_close,
    .limits = lo_limits,
    .address = lo_address,
    .resolve = lo_resolve,
    .reverse = lo_reverse,
    .abandon = lo_abandon,
    .region_add = vipl_lo_region_add,
    .region_remove = vipl_lo_region_remove,
    .region_change = vipl_lo_region_change,
    .regions_end = vipl_lo_regions_end,
    .vi_create = lo_vi_create,
    .vi_destroy = lo_vi_destroy,
    .listen = lo_listen,
    .unlisten = lo_unlisten,
    .conns_look = lo_conns_look,
    .connect = lo_connect,
    .connect_cancel = lo_connect_cancel,
    .conn_taken = lo_conn_taken,
    .conn_accept = lo_conn_accept,
    .conn_reject = lo_conn_reject,
    .revoke = vipl_lo_session_revoke,
    .is_answering = vipl_lo_session_is_answering,
    .disconnect = lo_disconnect,
    .post_send = lo_post_send,
    .send_short = lo_send_short,
    .rdma_short = lo_rdma_short,
    .poll = vipl_lo_remote_poll,
    .poll_filter = lo_poll_filter,
    .prepare_wait = vipl_lo_remote_prepare_wait,
    .finish_wait = vipl_lo_remote_finish_wait,
};
