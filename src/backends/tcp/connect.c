/* SPDX-License-Identifier: MIT */
/*
 * The requesting side. A connect operation probes the ports that its target's discriminator may
 * have, one after the other. It begins again after a pause, until there is a connection or its time
 * is up, because programs start in any order. Of two peer-to-peer requests the one with the smaller
 * name listens and the other one probes; if the names are equal, the one that gets a port listens.
 */
#include "backends/tcp/connect.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/address.h"
#include "backends/tcp/listen.h"
#include "backends/tcp/loop.h"
#include "backends/tcp/open.h"
#include "base/log.h"

/* If a port has not replied within PARALLEL_MS, the next one is probed in parallel. */
enum { PROBE_MS = 3000, PARALLEL_MS = 20, FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 100 };

static const struct tcp_handler connecting;

static void probe_ports(struct tcp_connect_op *op);

/* --- the end of an operation --- */

static void free_op(struct tcp_ended *ended)
{
    vipl_free(VIPL_CONTAINER(ended, struct tcp_connect_op, ended));
}

/* The operation is over. Its connection, if it has one, belongs to the caller. */
static void end_op(struct tcp_connect_op *op)
{
    tcp_vi_of(op->vi)->connect_op = NULL;
    vipl_list_remove(&op->link);
    if (op->listener != NULL) {
        op->listener->peers--;
        vipl_tcp_listener_release(op->listener);
    }
    vipl_tcp_timer_stop(&op->timer);
    vipl_tcp_free_later(&op->nic->loop, &op->ended, free_op);
    vipl_tcp_changed(op->nic);
}

/* Takes a connection from its operation, and from the VI if it is attached already. */
static void detach_from_op(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    for (unsigned i = 0; i < TCP_MAX_PROBES; i++) {
        op->outstanding[i] = op->outstanding[i] == conn ? NULL : op->outstanding[i];
    }
    op->conn = op->conn == conn ? NULL : op->conn;
    conn->connect_op = NULL;
    vipl_tcp_conn_detach(conn);
}

static void drop_conn(struct tcp_conn *conn)
{
    detach_from_op(conn);
    vipl_tcp_conn_close(conn);
}

static void drop_op_conns(struct tcp_connect_op *op)
{
    for (unsigned i = 0; i < TCP_MAX_PROBES; i++) {
        if (op->outstanding[i] != NULL) {
            drop_conn(op->outstanding[i]);
        }
    }
    if (op->conn != NULL) {
        drop_conn(op->conn);
    }
}

static void fail_op(struct tcp_connect_op *op, VIP_RETURN rc)
{
    struct vipl_vi *vi = op->vi;
    drop_op_conns(op);
    end_op(op);
    vipl_up_connect_failed(vi, rc);
}

/* --- the probe loop --- */

static void on_pause_over(struct tcp_timer *timer)
{
    struct tcp_connect_op *op = VIPL_CONTAINER(timer, struct tcp_connect_op, timer);
    if (op->conn == NULL && op->probing) {
        op->round++;
        op->probe = 0;
        probe_ports(op);
    }
}

/* What a round of probes has found out about an AT_ONCE operation. VIP_NOT_DONE: a port has not
 * answered yet, or could not be asked. */
static VIP_RETURN found_out(const struct tcp_connect_op *op)
{
    unsigned all = (1u << op->nic->settings.probes) - 1;
    bool waits = false;
    for (unsigned i = 0; i < TCP_MAX_PROBES; i++) {
        waits |= op->outstanding[i] != NULL;
    }
    if (!op->at_once || waits || op->not_probed != 0) {
        return VIP_NOT_DONE;
    }
    if (op->unreachable && op->refused == 0 && !op->no_reply) {
        return VIP_NOT_REACHABLE;
    }
    return op->refused == all && op->busy == 0 ? VIP_NO_MATCH : VIP_NOT_DONE;
}

/* The round is over: an AT_ONCE operation may end here, and any other one goes on after a pause. */
static void pause_probing(struct tcp_connect_op *op)
{
    VIP_RETURN rc = found_out(op);
    vipl_log(VIPL_LOG_DEBUG, "round %u is over: refused %d, unreachable %d, no reply %d", op->round,
             (int)(op->refused != 0), (int)op->unreachable, (int)op->no_reply);
    if (rc != VIP_NOT_DONE) {
        fail_op(op, rc);
        return;
    }
    uint32_t ms = FIRST_PAUSE_MS << (op->round < 5 ? op->round : 5);
    vipl_tcp_timer_start(&op->nic->loop, &op->timer, ms > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : ms);
    vipl_tcp_changed(op->nic);
}

/* Whether the error is a shortage on this host: of local ports, descriptors or memory. */
static bool is_local_shortage(int error)
{
    return error == EADDRNOTAVAIL || error == EMFILE || error == ENFILE || error == ENOMEM ||
           error == ENOBUFS;
}

/* Notes that a port has refused. Busy: by a listener that has no room for the request now. */
static void note_refusal(struct tcp_connect_op *op, unsigned probe, bool busy)
{
    unsigned bit = 1u << probe;
    op->refused |= bit;
    op->busy = busy ? op->busy | bit : op->busy & ~bit;
}

/* Notes what the port number `probe` answered. */
static void note_error(struct tcp_connect_op *op, unsigned probe, int error)
{
    if (is_local_shortage(error)) {
        if (op->not_probed == 0) {
            vipl_log_os(VIPL_LOG_REASON, "tcp: connecting from this host", error);
        }
        op->not_probed |= 1u << probe;
        return;
    }
    op->not_probed &= ~(1u << probe);
    if (error == ECONNREFUSED || error == ECONNRESET) {
        note_refusal(op, probe, false);
    } else if (error == EHOSTUNREACH || error == ENETUNREACH || error == EINVAL) {
        if (!op->unreachable) {
            vipl_log_os(VIPL_LOG_REASON, "tcp: connecting", error);
        }
        op->unreachable = true;
    } else {
        op->no_reply = true;
    }
}

/* If both sides have the same name, tries to get a port of it. Returns true if this side has it, so
 * that the other side connects. */
static bool try_to_listen(struct tcp_connect_op *op)
{
    if (!op->same_name) {
        return false;
    }
    struct tcp_listener *listener =
        vipl_tcp_listener(op->nic, &op->local, op->round % op->nic->settings.probes, true);
    if (listener == NULL || listener->peers > 0) {
        return false;
    }
    listener->peers++;
    op->listener = listener;
    op->probing = false;
    return true;
}

/* Returns 0, EAGAIN if TCP has not connected yet, or why there is no connection. */
static int send_connect_request(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    struct tcp_private_data data = {.kind = op->peer ? TCP_PEER_REQUEST : TCP_REQUEST,
                                    .params = op->params,
                                    .segment = TCP_SEGMENT,
                                    .from = op->local,
                                    .to = op->remote};
    bool use_revision_1 = (op->use_revision_1 & 1u << conn->probe) != 0;
    struct vipl_mpa_start start = {.crc = vipl_tcp_wants_crc(conn), .revision = use_revision_1 ? 1 : 2};
    struct vipl_mpa_enhanced enhanced = {.ird = TCP_MAX_READS,
                                         .ord = TCP_MAX_READS,
                                         .peer_to_peer = true,
                                         .rtr_send = true,
                                         .rtr_write = true,
                                         .rtr_read = true};
    conn->crc = start.crc;
    conn->start = start;
    int error = vipl_tcp_start_send(conn, start, use_revision_1 ? NULL : &enhanced, &data);
    return error == ENOTCONN ? EAGAIN : error; /* what some systems return instead */
}

static void await_connect_reply(struct tcp_conn *conn)
{
    vipl_log(VIPL_LOG_DEBUG, "port %u: request in revision %u", (unsigned)conn->peer.port,
             (unsigned)conn->start.revision);
    conn->state = TCP_REQUEST_SENT;
    vipl_tcp_conn_deadline(conn, PARALLEL_MS);
    vipl_tcp_conn_watch(conn, TCP_READABLE);
}

static void await_tcp_connection(struct tcp_conn *conn)
{
    vipl_log(VIPL_LOG_DEBUG, "port %u: connecting", (unsigned)conn->peer.port);
    vipl_tcp_conn_deadline(conn, PARALLEL_MS);
    vipl_tcp_conn_watch(conn, TCP_WRITABLE);
}

/* Probes one port. Returns 0 if TCP or a reply is waited for: within a host, TCP has connected when
 * the system call returns. */
static int probe_port(struct tcp_connect_op *op, const struct vipl_inet *target)
{
    struct tcp_nic *nic = op->nic;
    int fd;
    int error = vipl_socket_connect(&nic->inet, target, &nic->settings.tuning, &fd);
    struct tcp_conn *conn = error == 0 ? vipl_tcp_conn_new(nic, fd, TCP_CONNECTING, &connecting) : NULL;
    if (conn == NULL) {
        return error == 0 ? ENOMEM : error;
    }
    conn->connect_op = op;
    conn->peer = *target;
    conn->probe = op->probe;
    op->conn = conn;
    error = send_connect_request(conn);
    if (error == 0) {
        await_connect_reply(conn);
    } else if (error == EAGAIN) {
        await_tcp_connection(conn);
    } else {
        drop_conn(conn);
        return error;
    }
    return 0;
}

static void probe_ports(struct tcp_connect_op *op)
{
    const struct tcp_settings *settings = &op->nic->settings;
    if (op->probe == 0 && try_to_listen(op)) {
        return;
    }
    for (; op->probe < settings->probes; op->probe++) {
        struct vipl_inet target = op->target;
        if (op->outstanding[op->probe] != NULL) {
            continue;
        }
        target.port = vipl_tcp_port(settings, &op->remote, op->probe);
        int error = probe_port(op, &target);
        if (error == 0) {
            op->not_probed &= ~(1u << op->probe);
            return;
        }
        note_error(op, op->probe, error);
    }
    pause_probing(op);
}

static void probe_next(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    bool current = op->conn == conn;
    drop_conn(conn);
    if (current) {
        op->probe++;
        probe_ports(op);
    }
}

/* The port has not replied yet: it is far away, or its program is busy. Probes the next
 * port in parallel. */
static void probe_next_in_parallel(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    if (conn->state == TCP_CONNECTING) {
        vipl_tcp_conn_deadline(conn, PROBE_MS);
    }
    op->outstanding[op->probe++] = conn;
    op->conn = NULL;
    probe_ports(op);
}

/* The deadline of a connection has passed, or the connection broke, before it was open. */
static void on_op_conn_lost(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    /* the peer has withdrawn its request, and may send another one */
    if (conn->state == TCP_REPLY_SENT) {
        drop_conn(conn);
        return;
    }
    if (op->conn == conn) {
        probe_next_in_parallel(conn);
    } else if (conn->state == TCP_CONNECTING) {
        op->no_reply = true;
        drop_conn(conn);
    }
}

/* TCP has connected, or has failed to. */
static void on_connected(struct tcp_conn *conn)
{
    int error = vipl_socket_connect_result(conn->fd);
    error = error == 0 ? send_connect_request(conn) : error;
    if (error == 0) {
        await_connect_reply(conn);
    } else if (error != EAGAIN) {
        note_error(conn->connect_op, conn->probe, error);
        probe_next(conn);
    }
}

/* --- the reply --- */

/* Tells core that the connection is open. Returns false if the VI does not wait for it any more,
 * and then ends the connection. */
static bool report_connected(struct tcp_conn *conn)
{
    if (vipl_up_connected(conn->vi, &conn->params)) {
        return true;
    }
    vipl_tcp_conn_detach(conn);
    vipl_tcp_conn_end(conn);
    return false;
}

/* The peer has accepted: the operation ends, and its VI gets the connection. */
static void adopt_conn(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    struct vipl_vi *vi = op->vi;
    detach_from_op(conn);
    drop_op_conns(op);
    end_op(op);
    vipl_tcp_conn_attach(conn, vi);
    if (conn->foreign) {
        vipl_tcp_open_foreign(conn, false);
    } else {
        vipl_tcp_open(conn);
    }
    /* before any message of the program */
    if (!conn->foreign || vipl_tcp_foreign_gets_ready(conn)) {
        vipl_tcp_send_empty(conn, conn->foreign ? vipl_tcp_ready_op(&conn->enhanced) : VIPL_RDMAP_WRITE);
    }
    report_connected(conn);
}

static void on_accepted(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    conn->params = data->params;
    conn->segment = data->segment < TCP_SEGMENT ? data->segment : TCP_SEGMENT;
    adopt_conn(conn);
}

static void on_refused(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    struct tcp_connect_op *op = conn->connect_op;
    vipl_log(VIPL_LOG_DEBUG, "port %u: refused, reason %u", (unsigned)conn->peer.port, data->reason);
    note_refusal(op, conn->probe, data->reason == TCP_BUSY);
    if (data->reason == TCP_REJECTED) {
        fail_op(op, VIP_REJECT);
    } else if (data->reason == TCP_DISAGREES) {
        fail_op(op, data->code == VIP_SUCCESS ? VIP_REJECT : (VIP_RETURN)data->code);
    } else {
        probe_next(conn);
    }
}

/* --- the reply of a foreign peer --- */

/* The peer at that port may know MPA revision 1 only. The next request to it is in revision 1, and
 * is sent now if this is the probe under way; the one after that is in revision 2 again. Returns
 * false if this request was in revision 1. */
static bool retry_in_revision_1(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    bool current = op->conn == conn;
    op->use_revision_1 ^= 1u << conn->probe;
    if (conn->start.revision == 1) {
        return false;
    }
    drop_conn(conn);
    if (current) {
        probe_ports(op);
    }
    return true;
}

/* A foreign peer has accepted. It cannot compare the properties of the two VIs, so
 * this side does. */
static void on_foreign_accepted(struct tcp_conn *conn, const struct vipl_mpa_start *start)
{
    struct tcp_connect_op *op = conn->connect_op;
    vipl_tcp_foreign_params(&conn->params);
    VIP_RETURN rc = vipl_params_agree(&op->params, &conn->params);
    if (rc != VIP_SUCCESS) {
        fail_op(op, rc);
    } else if (start->revision > conn->start.revision || op->peer || !vipl_tcp_foreign_begin(conn, start)) {
        note_refusal(op, conn->probe, false);
        probe_next(conn);
    } else {
        vipl_log(VIPL_LOG_DEBUG, "port %u: a foreign peer, MPA revision %u", (unsigned)conn->peer.port,
                 (unsigned)start->revision);
        conn->start = *start;
        adopt_conn(conn);
    }
}

/* A reply that is not a VIPL peer's. `start` NULL: it is no reply at all, or the connection
 * was closed (`hung_up`). */
static void on_other_reply(struct tcp_conn *conn, const struct vipl_mpa_start *start, bool hung_up)
{
    if ((hung_up || (start != NULL && start->reject && start->revision < conn->start.revision)) &&
        retry_in_revision_1(conn)) {
        return;
    }
    if (start != NULL && !start->reject) {
        on_foreign_accepted(conn, start);
    } else if (start != NULL) {
        fail_op(conn->connect_op, VIP_REJECT);
    } else {
        note_refusal(conn->connect_op, conn->probe, false);
        probe_next(conn);
    }
}

static void on_reply(struct tcp_conn *conn)
{
    struct vipl_mpa_start start;
    struct tcp_private_data data;
    size_t bytes;
    enum vipl_parse parsed = vipl_tcp_start_receive(conn, &start, true);
    if (parsed == VIPL_PARSE_MORE) {
        return;
    }
    const uint8_t *private = parsed == VIPL_PARSE_OK ? vipl_tcp_start_private(conn, &start, &bytes) : NULL;
    if (private == NULL || !vipl_tcp_private_data_is_vipl(private, bytes)) {
        conn->crc = conn->crc || (private != NULL && start.crc);
        on_other_reply(conn, private == NULL ? NULL : &start, private == NULL && conn->rx.have == 0);
        return;
    }
    bool vipl = vipl_tcp_private_data_read(private, bytes, &data) && !start.markers;
    conn->crc = conn->crc || (vipl && start.crc);
    if (vipl && !start.reject && data.kind == TCP_ACCEPT && data.segment >= 512) {
        on_accepted(conn, &data);
    } else if (vipl && start.reject && data.kind == TCP_REFUSE) {
        on_refused(conn, &data);
    } else {
        note_refusal(conn->connect_op, conn->probe, false); /* the peer breaks the protocol */
        probe_next(conn);
    }
}

/* --- peer-to-peer requests that listen --- */

static bool matches_request(const struct tcp_connect_op *op, const struct tcp_conn *conn,
                            const struct tcp_private_data *data)
{
    return op->peer && op->conn == NULL && vipl_tcp_same_host(&op->target, &conn->peer) &&
           vipl_address_same_discriminator(&op->local, &data->to) &&
           vipl_address_same_discriminator(&op->remote, &data->from) && (!op->probing || op->same_name);
}

bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    struct tcp_nic *nic = conn->nic;
    struct tcp_connect_op *op = NULL;
    for (struct vipl_list *l = nic->connect_ops.next; l != &nic->connect_ops && op == NULL; l = l->next) {
        struct tcp_connect_op *each = VIPL_CONTAINER(l, struct tcp_connect_op, link);
        op = matches_request(each, conn, data) ? each : NULL;
    }
    if (op == NULL) {
        return false;
    }
    VIP_RETURN rc = vipl_params_agree(&op->params, &data->params);
    if (rc != VIP_SUCCESS) {
        vipl_tcp_reply_refuse(conn, TCP_DISAGREES, rc);
        fail_op(op, rc);
        return true;
    }
    conn->connect_op = op;
    op->conn = conn;
    vipl_tcp_conn_attach(conn, op->vi);
    if (!vipl_tcp_reply_accept(conn, &op->params, &connecting)) {
        on_op_conn_lost(conn);
    }
    return true;
}

/* Peer-to-peer: the peer has the reply of this side, so the connection is open. */
static bool on_peer_opened(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    op->conn = NULL;
    conn->connect_op = NULL;
    end_op(op);
    vipl_tcp_open(conn);
    return report_connected(conn);
}

/* --- operations begin and end --- */

static int compare_addresses(const struct vipl_address *a, const struct vipl_address *b)
{
    int hosts = memcmp(a->host, b->host, sizeof(a->host));
    if (hosts != 0) {
        return hosts;
    }
    int discs = memcmp(a->disc, b->disc, sizeof(a->disc));
    return discs != 0 ? discs : (int)a->disc_len - (int)b->disc_len;
}

static VIP_RETURN start_op(struct tcp_connect_op *op)
{
    int by_name = op->peer ? compare_addresses(&op->local, &op->remote) : 1;
    op->probing = by_name >= 0;
    op->same_name = by_name == 0;
    if (by_name < 0) {
        op->listener = vipl_tcp_listener(op->nic, &op->local, 0, false);
        if (op->listener == NULL) {
            return VIP_ERROR_RESOURCE;
        }
        op->listener->peers++;
    } else {
        probe_ports(op);
    }
    return VIP_SUCCESS;
}

VIP_RETURN vipl_tcp_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                            const struct vipl_address *remote, enum vipl_connect_kind kind)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    struct tcp_connect_op *op = vipl_zalloc(sizeof(*op));
    if (op == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    if (!vipl_tcp_from_address(remote, &nic->inet, &op->target)) {
        vipl_free(op);
        return VIP_NOT_REACHABLE;
    }
    op->nic = nic;
    op->vi = vi;
    op->local = *local;
    op->remote = *remote;
    op->peer = kind == VIPL_CONNECT_PEER;
    op->at_once = kind == VIPL_CONNECT_AT_ONCE;
    vipl_up_vi_params(vi, &op->params);
    if (op->peer && (op->params.rdma_write || op->params.rdma_read)) {
        /* the thread that opens the connection may not start the service thread */
        (void)vipl_up_need_service(nic->core);
    }
    vipl_biased_lock(&nic->lock);
    vipl_tcp_timer_init(&op->timer, on_pause_over);
    vipl_list_append(&nic->connect_ops, &op->link);
    tcp_vi_of(vi)->connect_op = op;
    VIP_RETURN rc = start_op(op);
    if (rc != VIP_SUCCESS) {
        end_op(op);
    }
    vipl_tcp_unlock(nic);
    return rc;
}

/* The result of an operation whose time is up. It says whether a peer has the request, a port could
 * not be probed, no port has the discriminator, or the host cannot be reached. */
static VIP_RETURN connect_progress(const struct tcp_connect_op *op)
{
    bool requested = op->conn != NULL && op->conn->state == TCP_REPLY_SENT;
    for (unsigned i = 0; i < TCP_MAX_PROBES; i++) {
        requested |= op->outstanding[i] != NULL && op->outstanding[i]->state == TCP_REQUEST_SENT;
    }
    if (requested) {
        return VIP_TIMEOUT; /* a peer has the request, and has not replied in time */
    }
    if (op->not_probed != 0) {
        return VIP_ERROR_RESOURCE;
    }
    if (op->refused != 0 || (op->conn == NULL && !op->probing)) {
        return VIP_NO_MATCH;
    }
    return op->unreachable ? VIP_NOT_REACHABLE : VIP_TIMEOUT;
}

VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    VIP_RETURN rc = VIP_SUCCESS;
    (void)withdrawn; /* cancelling does not wait for anything */
    vipl_biased_lock(&nic->lock);
    struct tcp_connect_op *op = tcp_vi_of(vi)->connect_op;
    if (op != NULL) {
        rc = connect_progress(op);
        drop_op_conns(op);
        end_op(op);
    }
    vipl_tcp_unlock(nic);
    return rc;
}

/* --- what happens to a connection until it is open --- */

static void connecting_ready(struct tcp_conn *conn, int events)
{
    (void)events;
    if (conn->state == TCP_CONNECTING) {
        on_connected(conn);
    } else if (conn->state == TCP_REQUEST_SENT) {
        on_reply(conn);
    } else {
        vipl_tcp_receive(conn);
    }
}

static void connecting_failed(struct tcp_conn *conn, VIP_ERROR_CODE code)
{
    (void)code;
    on_op_conn_lost(conn);
}

static const struct tcp_handler connecting = {.ready = connecting_ready,
                                              .expired = on_op_conn_lost,
                                              .first_fpdu = on_peer_opened,
                                              .failed = connecting_failed};
