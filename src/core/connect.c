/* SPDX-License-Identifier: MIT */
/* Connecting. The passive side: requests arrive, wait, are taken and answered. The active side: the
 * request of a VI. */
#include "core/connect.h"

#include <string.h>

#include "base/handle.h"
#include "core/backend_up.h"
#include "core/listener.h"
#include "core/nic.h"
#include "core/transfer.h"
#include "core/vi.h"

static struct vipl_pool conn_pool = VIPL_POOL_INIT(conn_pool, struct vipl_conn, link, NULL);

void vipl_conn_abandon_pool(void)
{
    vipl_pool_abandon(&conn_pool);
}

/* --- addresses --- */

bool vipl_address_read(const struct vipl_nic *nic, const VIP_NET_ADDRESS *in, struct vipl_address *out)
{
    if (in->HostAddressLen > VIPL_MAX_HOST_ADDRESS || in->DiscriminatorLen > nic->limits.max_discriminator) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->host_len = in->HostAddressLen;
    out->disc_len = in->DiscriminatorLen;
    const uint8_t *bytes = (const uint8_t *)in + offsetof(VIP_NET_ADDRESS, HostAddress);
    memcpy(out->host, bytes, out->host_len);
    memcpy(out->disc, bytes + out->host_len, out->disc_len);
    return true;
}

void vipl_address_write(const struct vipl_address *in, VIP_NET_ADDRESS *out)
{
    uint8_t *bytes = (uint8_t *)out + offsetof(VIP_NET_ADDRESS, HostAddress);
    out->HostAddressLen = in->host_len;
    out->DiscriminatorLen = in->disc_len;
    memcpy(bytes, in->host, in->host_len);
    memcpy(bytes + in->host_len, in->disc, in->disc_len);
}

VIP_RETURN vipl_params_agree(const struct vipl_vi_params *a, const struct vipl_vi_params *b)
{
    if (a->reliability != b->reliability) {
        return VIP_INVALID_RELIABILITY_LEVEL;
    }
    if (a->foreign || b->foreign) {
        return VIP_SUCCESS;
    }
    if (a->max_transfer_size != b->max_transfer_size) {
        return VIP_INVALID_MTU;
    }
    return a->has_qos != b->has_qos ? VIP_INVALID_QOS : VIP_SUCCESS;
}

/* --- requests arrive and go --- */

static void count_waiting_locked(struct vipl_nic *nic, uint32_t change)
{
    nic->conns_waiting += change;
    vipl_ready_fd_update(nic->conn_ready_fd, nic->conns_waiting > 0);
}

struct vipl_conn *vipl_up_conn_arrived(struct vipl_nic *nic, const struct vipl_address *local,
                                       const struct vipl_address *remote, const struct vipl_vi_params *params)
{
    struct vipl_conn *conn = NULL;
    vipl_mutex_lock(&nic->lock);
    if (vipl_load_relaxed(&nic->closing) == 0 && nic->conns_waiting < nic->limits.max_pending_connects) {
        conn = vipl_pool_get(&conn_pool);
    }
    if (conn != NULL) {
        memset(conn->area, 0, sizeof(conn->area));
        conn->handle = NULL;
        conn->nic = nic;
        conn->local = *local;
        conn->remote = *remote;
        conn->params = *params;
        conn->state = VIPL_CONN_WAITING;
        vipl_list_append(&nic->conns, &conn->link);
        count_waiting_locked(nic, 1);
        vipl_wake_all_locked(&nic->conn_waiters); /* each waits for a discriminator of its own */
    }
    vipl_mutex_unlock(&nic->lock);
    return conn;
}

static void free_conn_locked(struct vipl_conn *conn)
{
    count_waiting_locked(conn->nic, conn->state == VIPL_CONN_WAITING ? (uint32_t)-1 : 0);
    vipl_list_remove(&conn->link);
    if (conn->handle != NULL) {
        vipl_handle_destroy(conn->handle);
        conn->handle = NULL;
    }
    vipl_pool_put(&conn_pool, conn);
}

/* A request that the program has taken ends with the program's answer. */
void vipl_up_conn_gone(struct vipl_conn *conn)
{
    struct vipl_nic *nic = conn->nic;
    vipl_mutex_lock(&nic->lock);
    if (conn->state == VIPL_CONN_WAITING) {
        free_conn_locked(conn);
    }
    vipl_mutex_unlock(&nic->lock);
}

void vipl_conns_close(struct vipl_nic *nic)
{
    vipl_mutex_lock(&nic->lock);
    while (!vipl_list_empty(&nic->conns)) {
        struct vipl_conn *conn = VIPL_CONTAINER(nic->conns.next, struct vipl_conn, link);
        bool is_taken = conn->state != VIPL_CONN_WAITING;
        count_waiting_locked(nic, is_taken ? 0 : (uint32_t)-1);
        conn->state = VIPL_CONN_ANSWERING;
        vipl_mutex_unlock(&nic->lock);
        nic->ops->conn_reject(nic->be, conn, is_taken);
        vipl_mutex_lock(&nic->lock);
        free_conn_locked(conn);
    }
    vipl_mutex_unlock(&nic->lock);
}

/* --- VipConnectWait --- */

struct wait_for_conn {
    struct vipl_nic *nic;
    struct vipl_address local;
    struct vipl_conn *conn; /* out: the request that was taken */
};
_Static_assert(sizeof(struct wait_for_conn) <= VIPL_WAIT_ARG, "vipl_wait() copies it");

static VIP_RETURN take_conn_locked(struct vipl_conn *conn)
{
    conn->handle = vipl_handle_create(VIPL_KIND_CONN, conn);
    if (conn->handle == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    conn->state = VIPL_CONN_TAKEN;
    conn->nic->retired.requests_taken++;
    count_waiting_locked(conn->nic, (uint32_t)-1);
    return VIP_SUCCESS;
}

static VIP_RETURN attempt_conn(void *arg, struct vipl_waiter *waiter)
{
    struct wait_for_conn *wait = arg;
    struct vipl_nic *nic = wait->nic;
    VIP_RETURN rc = VIP_NOT_DONE;
    vipl_mutex_lock(&nic->lock);
    for (struct vipl_list *l = nic->conns.next; l != &nic->conns && rc == VIP_NOT_DONE; l = l->next) {
        struct vipl_conn *conn = VIPL_CONTAINER(l, struct vipl_conn, link);
        if (conn->state == VIPL_CONN_WAITING && vipl_address_same_discriminator(&conn->local, &wait->local)) {
            rc = take_conn_locked(conn);
            wait->conn = conn;
        }
    }
    if (rc == VIP_NOT_DONE && vipl_load_relaxed(&nic->closing) != 0) {
        rc = VIP_INVALID_PARAMETER;
    }
    if (rc == VIP_NOT_DONE && waiter != NULL) {
        vipl_list_append(&nic->conn_waiters, &waiter->link);
    }
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

static void leave_conn(void *arg, struct vipl_waiter *waiter, bool unused)
{
    (void)unused; /* all waiters are woken */
    struct wait_for_conn *wait = arg;
    vipl_mutex_lock(&wait->nic->lock);
    vipl_list_remove(&waiter->link);
    vipl_mutex_unlock(&wait->nic->lock);
}

static void cancelled_conn(void *arg)
{
    struct wait_for_conn *wait = arg;
    vipl_listener_end(wait->nic, &wait->local);
}

static void write_remote_attributes(const struct vipl_vi_params *params, VIP_VI_ATTRIBUTES *out)
{
    if (out != NULL) {
        out->ReliabilityLevel = params->reliability;
        out->MaxTransferSize = (VIP_ULONG)params->max_transfer_size;
        out->QoS = NULL;
        out->Ptag = NULL;
        out->EnableRdmaWrite = params->rdma_write ? VIP_TRUE : VIP_FALSE;
        out->EnableRdmaRead = params->rdma_read ? VIP_TRUE : VIP_FALSE;
    }
}

/* Removes a request that was taken here, and that another listener has or that has gone. */
static void drop_taken(struct vipl_conn *conn)
{
    struct vipl_nic *nic = conn->nic;
    vipl_mutex_lock(&nic->lock);
    nic->retired.requests_taken--;
    free_conn_locked(conn);
    vipl_mutex_unlock(&nic->lock);
}

/* Waits until this NIC handle alone has a request. */
static VIP_RETURN take_request(struct wait_for_conn *wait, uint64_t deadline)
{
    struct vipl_nic *nic = wait->nic;
    struct vipl_wait_for what = {.attempt = attempt_conn,
                                 .leave = leave_conn,
                                 .cancellable = true,
                                 .cancelled = cancelled_conn,
                                 .arg = wait,
                                 .arg_bytes = sizeof(*wait)};
    nic->ops->conns_look(nic->be);
    for (;;) {
        VIP_RETURN rc = vipl_wait(nic, &what, deadline);
        if (rc != VIP_SUCCESS || vipl_nic_is_inherited(nic) || nic->ops->conn_taken(nic->be, wait->conn)) {
            return rc;
        }
        drop_taken(wait->conn);
    }
}

VIP_RETURN vipl_connect_wait(struct vipl_nic *nic, const struct vipl_address *local, VIP_ULONG timeout,
                             VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **handle)
{
    struct wait_for_conn wait = {.nic = nic, .local = *local};
    uint64_t deadline = vipl_deadline(timeout);
    VIP_RETURN rc = vipl_listener_begin(nic, local);
    if (vipl_nic_is_inherited(nic)) {
        return VIP_INVALID_PARAMETER;
    }
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    rc = take_request(&wait, deadline);
    if (vipl_nic_is_inherited(nic)) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_listener_end(nic, local);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    /* The request ends with the program's answer, or with the NIC handle, whose closing waits for
     * this call. */
    vipl_address_write(&wait.conn->remote, remote);
    write_remote_attributes(&wait.conn->params, attributes);
    *handle = wait.conn->handle;
    return VIP_SUCCESS;
}

/* --- a VI begins to connect: both its locks are held --- */

/* The closing thread sets `closing` before it takes these locks to end the VI's connect. So either
 * the closing thread finds the connect, or this check finds `closing`. */
static VIP_RETURN check_idle_locked(const struct vipl_vi *vi)
{
    if (vipl_load_relaxed(&vi->nic->closing) != 0) {
        return VIP_INVALID_PARAMETER;
    }
    return vi->state == VIP_STATE_IDLE ? VIP_SUCCESS : VIP_INVALID_STATE;
}

/* Holds the VI, so that a thread that wants to end the VI waits until the backend knows of the
 * connect. */
static void begin_connect_locked(struct vipl_vi *vi, bool peer)
{
    vi->state = VIP_STATE_CONNECT_PENDING;
    vi->connect_rc = VIP_NOT_DONE;
    vi->connect_is_peer = peer;
    vi->send.overrun = vi->recv.overrun = false; /* left from an earlier connection */
    vipl_vi_hold(vi);
    vipl_recvs_hand_over_locked(vi);
}

/* Starts the service thread for a backend with quiesce(). An async-signal-safe function may find
 * that the connection has failed, and should not wait until the device is quiesced: the service
 * thread does that. Without a service thread such a function does it. */
static void prepare_to_quiesce(struct vipl_nic *nic)
{
    if (nic->ops->quiesce != NULL) {
        (void)vipl_up_need_service(nic);
    }
}

/* --- answers --- */

/* Finds a request, marks it as being answered, and takes a reference on its NIC. NULL: not a live
 * handle. */
static struct vipl_conn *begin_answer(void *handle)
{
    struct vipl_conn *conn = vipl_handle_find(VIPL_KIND_CONN, handle);
    if (conn == NULL) {
        return NULL;
    }
    struct vipl_nic *nic = conn->nic; /* a hint until the NIC's lock is held */
    vipl_mutex_lock(&nic->lock);
    bool mine =
        conn->nic == nic && conn->handle == handle && conn->state == VIPL_CONN_TAKEN && vipl_nic_ref(nic);
    if (mine) {
        conn->state = VIPL_CONN_ANSWERING;
    }
    vipl_mutex_unlock(&nic->lock);
    return mine ? conn : NULL;
}

static void end_answer(struct vipl_conn *conn, bool over)
{
    struct vipl_nic *nic = conn->nic;
    vipl_mutex_lock(&nic->lock);
    if (over) {
        free_conn_locked(conn);
    } else {
        conn->state = VIPL_CONN_TAKEN;
    }
    vipl_mutex_unlock(&nic->lock);
    vipl_nic_put(nic);
}

/* Checks that the VI may accept the request. On success the VI is CONNECT_PENDING, and held until
 * the answer is over. */
static VIP_RETURN offer_vi(struct vipl_conn *conn, void *vi_handle, struct vipl_vi **out)
{
    struct vipl_vi_params params;
    struct vipl_vi *vi = vipl_vi_lock_quiet(vi_handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_up_vi_params(vi, &params);
    VIP_RETURN rc = vi->nic != conn->nic ? VIP_INVALID_PARAMETER : check_idle_locked(vi);
    if (rc == VIP_SUCCESS) {
        rc = vipl_params_agree(&params, &conn->params);
        vipl_reason_disagree(&params, &conn->params, rc);
    }
    if (rc == VIP_SUCCESS) {
        begin_connect_locked(vi, false);
        *out = vi;
    }
    vipl_vi_unlock(vi);
    return rc;
}

static void withdraw_vi(struct vipl_vi *vi)
{
    vipl_vi_lock(vi);
    if (vi->state == VIP_STATE_CONNECT_PENDING) {
        vi->state = VIP_STATE_IDLE;
        vipl_recvs_take_back_locked(vi);
    }
    vipl_vi_unlock(vi);
    vipl_vi_put(vi);
}

VIP_RETURN vipl_connect_accept(void *conn_handle, void *vi_handle)
{
    struct vipl_vi *vi = NULL;
    struct vipl_conn *conn = begin_answer(conn_handle);
    if (conn == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    struct vipl_nic *nic = conn->nic;
    prepare_to_quiesce(nic);
    VIP_RETURN rc = offer_vi(conn, vi_handle, &vi);
    if (rc == VIP_SUCCESS) {
        rc = nic->ops->conn_accept(nic->be, conn, vi);
        if (vipl_nic_is_inherited(nic)) {
            return VIP_INVALID_PARAMETER;
        }
        withdraw_vi(vi);
    }
    end_answer(conn, rc == VIP_SUCCESS || rc == VIP_TIMEOUT);
    return rc;
}

VIP_RETURN vipl_connect_reject(void *conn_handle)
{
    struct vipl_conn *conn = begin_answer(conn_handle);
    if (conn == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    conn->nic->ops->conn_reject(conn->nic->be, conn, true);
    vipl_mutex_lock(&conn->nic->lock);
    conn->nic->retired.requests_rejected++;
    vipl_mutex_unlock(&conn->nic->lock);
    end_answer(conn, true);
    return VIP_SUCCESS;
}

/* --- the requesting side --- */

/* Begins a request of an idle VI. The caller holds a reference on the NIC. */
static VIP_RETURN begin_request(struct vipl_nic *nic, void *handle, const VIP_NET_ADDRESS *local,
                                const VIP_NET_ADDRESS *remote, uint64_t deadline, enum vipl_connect_kind kind)
{
    struct vipl_address from;
    struct vipl_address to;
    if (!vipl_address_read(nic, local, &from) || !vipl_address_read(nic, remote, &to)) {
        return VIP_INVALID_PARAMETER;
    }
    prepare_to_quiesce(nic);
    struct vipl_vi *vi = vipl_vi_lock_quiet(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = check_idle_locked(vi);
    if (rc == VIP_SUCCESS) {
        begin_connect_locked(vi, kind == VIPL_CONNECT_PEER);
        vi->connect_deadline = deadline;
    }
    vipl_vi_unlock(vi);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    rc = nic->ops->connect(nic->be, vi, &from, &to, kind);
    if (rc != VIP_SUCCESS) {
        vipl_up_connect_failed(vi, rc);
    }
    vipl_vi_put(vi);
    return rc;
}

static VIP_RETURN attempt_connected(void *arg, struct vipl_waiter *waiter)
{
    struct vipl_vi *vi = vipl_vi_lock_recv(arg);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vi->connect_rc;
    if (rc == VIP_NOT_DONE && waiter != NULL) {
        vipl_list_append(&vi->connect_waiters, &waiter->link);
    }
    vipl_biased_unlock(&vi->recv.lock);
    return rc;
}

static void leave_connected(void *arg, struct vipl_waiter *waiter, bool unused)
{
    (void)unused; /* all waiters are woken */
    struct vipl_vi *vi = vipl_handle_find(VIPL_KIND_VI, arg);
    if (vi != NULL) { /* a VI that was destroyed has emptied its list */
        vipl_biased_lock(&vi->recv.lock);
        vipl_list_remove(&waiter->link);
        vipl_biased_unlock(&vi->recv.lock);
    }
}

bool vipl_up_await_connected(struct vipl_vi *vi, uint32_t ms)
{
    struct vipl_wait_for what = {.attempt = attempt_connected, .leave = leave_connected, .arg = vi->handle};
    vipl_wait(vi->nic, &what, vipl_deadline(ms));
    return !vipl_nic_is_inherited(vi->nic);
}

/* Ends a request whose time is up. Returns the result of the request, which may have come
 * meanwhile. */
static VIP_RETURN abort_connect(struct vipl_nic *nic, void *handle)
{
    struct vipl_vi *vi = vipl_vi_lock_recv(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_vi_hold(vi);
    vipl_biased_unlock(&vi->recv.lock);
    VIP_RETURN rc = nic->ops->connect_cancel(nic->be, vi, false);
    if (rc != VIP_SUCCESS) {
        vipl_up_connect_failed(vi, rc);
    }
    vipl_vi_put(vi);
    /* The connection may have been made and have failed: then this thread holds the VI, and would
     * wait for itself. */
    vipl_deferred_run();
    return attempt_connected(handle, NULL);
}

static VIP_RETURN connected_result(void *handle, VIP_RETURN rc, VIP_VI_ATTRIBUTES *attributes)
{
    if (rc == VIP_SUCCESS) {
        struct vipl_vi *vi = vipl_vi_lock_recv(handle);
        if (vi == NULL) {
            return VIP_INVALID_PARAMETER;
        }
        write_remote_attributes(&vi->peer_params, attributes);
        vipl_biased_unlock(&vi->recv.lock);
    }
    return rc;
}

/* The thread is cancelled in its sleep: ends the request as if the call were interrupted. */
static void cancelled_request(void *arg)
{
    struct vipl_nic *nic = vipl_vi_nic(arg);
    if (nic != NULL) {
        abort_connect(nic, arg);
        vipl_nic_put(nic);
    }
}

VIP_RETURN vipl_connect_request(void *vi_handle, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                bool at_once, VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes)
{
    enum vipl_connect_kind kind = at_once ? VIPL_CONNECT_AT_ONCE : VIPL_CONNECT_PATIENT;
    struct vipl_wait_for what = {.attempt = attempt_connected,
                                 .leave = leave_connected,
                                 .cancellable = true,
                                 .cancelled = cancelled_request,
                                 .arg = vi_handle};
    struct vipl_nic *nic = vipl_vi_nic(vi_handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    uint64_t deadline = vipl_deadline(timeout);
    VIP_RETURN rc = begin_request(nic, vi_handle, local, remote, deadline, kind);
    if (rc == VIP_SUCCESS) {
        rc = vipl_wait(nic, &what, deadline);
        if (rc == VIP_TIMEOUT || rc == VIP_INTERRUPTED || rc == VIP_ERROR_RESOURCE) {
            VIP_RETURN late = abort_connect(nic, vi_handle);
            rc = rc == VIP_TIMEOUT || late == VIP_SUCCESS ? late : rc;
        }
        rc = connected_result(vi_handle, rc, attributes);
    }
    vipl_reason_connect(nic, remote, timeout, rc);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN vipl_connect_peer(void *vi_handle, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                             VIP_ULONG timeout)
{
    struct vipl_nic *nic = vipl_vi_nic(vi_handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = begin_request(nic, vi_handle, local, remote, vipl_deadline(timeout), VIPL_CONNECT_PEER);
    vipl_nic_put(nic);
    return rc;
}

/* Takes the result of the symmetric connect of a VI: each result is returned once. VIP_NOT_DONE:
 * there is none yet. */
static VIP_RETURN take_peer_result(void *handle, uint64_t *deadline)
{
    struct vipl_vi *vi = vipl_vi_lock_quiet(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    bool closing = vipl_load_relaxed(&vi->nic->closing) != 0; /* closing has ended the connect */
    VIP_RETURN rc = vi->connect_is_peer ? vi->connect_rc
                    : closing           ? VIP_INVALID_PARAMETER
                                        : VIP_INVALID_STATE;
    *deadline = vi->connect_deadline;
    if (rc != VIP_NOT_DONE) {
        vi->connect_is_peer = false;
    }
    vipl_vi_unlock(vi);
    return rc;
}

VIP_RETURN vipl_connect_peer_done(void *vi_handle, VIP_VI_ATTRIBUTES *attributes)
{
    uint64_t deadline;
    struct vipl_nic *nic = vipl_vi_nic(vi_handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_nic_progress(nic);
    VIP_RETURN rc = take_peer_result(vi_handle, &deadline);
    if (rc == VIP_NOT_DONE && vipl_now_ns() >= deadline) {
        abort_connect(nic, vi_handle);
        rc = take_peer_result(vi_handle, &deadline);
    }
    rc = connected_result(vi_handle, rc, attributes);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN vipl_connect_peer_wait(void *vi_handle, VIP_VI_ATTRIBUTES *attributes)
{
    struct vipl_wait_for what = {
        .attempt = attempt_connected, .leave = leave_connected, .cancellable = true, .arg = vi_handle};
    uint64_t deadline;
    struct vipl_nic *nic = vipl_vi_nic(vi_handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = take_peer_result(vi_handle, &deadline);
    if (rc == VIP_NOT_DONE) {
        rc = vipl_wait(nic, &what, deadline);
        if (rc == VIP_TIMEOUT) {
            abort_connect(nic, vi_handle);
        }
        if (rc != VIP_INTERRUPTED && rc != VIP_INVALID_PARAMETER) {
            VIP_RETURN result = take_peer_result(vi_handle, &deadline);
            rc = result != VIP_NOT_DONE ? result : rc; /* rc: there was no memory to sleep */
        }
    }
    rc = connected_result(vi_handle, rc, attributes);
    vipl_nic_put(nic);
    return rc;
}
