/* SPDX-License-Identifier: MIT */
/*
 * The requesting side. A connect operation probes the ports that its target's discriminator may have, one after the other,
 * and begins again after a while, until there is a connection or its time is up: programs start in any order. Of two
 * peer-to-peer requests the one with the smaller name listens and the other probes; where both have the same name, the one
 * that gets a port listens.
 */
#include "backends/tcp/connect.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/address.h"
#include "backends/tcp/listen.h"
#include "backends/tcp/loop.h"
#include "backends/tcp/open.h"
#include "base/log.h"

/* A port that has not replied within PARALLEL_MS is waited for in parallel to the next. */
enum { PROBE_MS = 3000, PARALLEL_MS = 20, FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 100 };

static const struct tcp_handler connecting;

static void probe_ports(struct tcp_connect_op *op);

/* --- the end of an operation --- */

static void free_op(struct tcp_ended *ended)
{
    vipl_free(VIPL_CONTAINER(ended, struct tcp_connect_op, ended));
}

/* The operation is over. Its connection, if it has one, is the caller's. */
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

/* Takes a connection from its operation; it may have the VI already. */
static void part(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        op->outstanding[i] = op->outstanding[i] == conn ? NULL : op->outstanding[i];
    }
    op->conn = op->conn == conn ? NULL : op->conn;
    conn->connect_op = NULL;
    vipl_tcp_conn_detach(conn);
}

static void drop(struct tcp_conn *conn)
{
    part(conn);
    vipl_tcp_conn_close(conn);
}

static void drop_all(struct tcp_connect_op *op)
{
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        if (op->outstanding[i] != NULL) {
            drop(op->outstanding[i]);
        }
    }
    if (op->conn != NULL) {
        drop(op->conn);
    }
}

static void fail_op(struct tcp_connect_op *op, VIP_RETURN rc)
{
    struct vipl_vi *vi = op->vi;
    drop_all(op);
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

static void pause_probing(struct tcp_connect_op *op)
{
    vipl_log(VIPL_LOG_DEBUG, "round %u is over: refused %d, unreachable %d, no reply %d", op->round,
             (int)op->refused, (int)op->unreachable, (int)op->no_reply);
    uint32_t ms = FIRST_PAUSE_MS << (op->round < 5 ? op->round : 5);
    vipl_tcp_timer_start(&op->nic->loop, &op->timer, ms > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : ms);
    vipl_tcp_changed(op->nic);
}

/* What this host lacks: a port of its own for the connection, a descriptor, memory. */
static bool is_lack(int error)
{
    return error == EADDRNOTAVAIL || error == EMFILE || error == ENFILE || error == ENOMEM ||
           error == ENOBUFS;
}

/* Of the port `probe`. */
static void note_error(struct tcp_connect_op *op, unsigned probe, int error)
{
    if (is_lack(error)) {
        if (op->unasked == 0) {
            vipl_log_os(VIPL_LOG_REASON, "tcp: connecting from this host", error);
        }
        op->unasked |= 1u << probe;
        return;
    }
    op->unasked &= ~(1u << probe);
    if (error == ECONNREFUSED || error == ECONNRESET) {
        op->refused = true;
    } else if (error == EHOSTUNREACH || error == ENETUNREACH || error == EINVAL) {
        if (!op->unreachable) {
            vipl_log_os(VIPL_LOG_REASON, "tcp: connecting", error);
        }
        op->unreachable = true;
    } else {
        op->no_reply = true;
    }
}

/* Tries to get a port of the name that both sides have. True: this side has it, and the other one is to connect
 * to it. */
static bool try_to_listen(struct tcp_connect_op *op)
{
    if (!op->tied) {
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

/* 0; EAGAIN: TCP has not connected yet; else why there is no connection. */
static int send_request(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    struct tcp_private_data data = {.kind = op->peer ? TCP_PEER_REQUEST : TCP_REQUEST,
                                    .params = op->params,
                                    .segment = TCP_SEGMENT,
                                    .from = op->local,
                                    .to = op->remote};
    bool older = (op->older & 1u << conn->probe) != 0;
    struct vipl_mpa_start start = {.crc = vipl_tcp_wants_crc(conn), .revision = older ? 1 : 2};
    struct vipl_mpa_enhanced enhanced = {.ird = TCP_READS,
                                         .ord = TCP_READS,
                                         .peer_to_peer = true,
                                         .rtr_send = true,
                                         .rtr_write = true,
                                         .rtr_read = true};
    conn->crc = start.crc;
    conn->start = start;
    int error = vipl_tcp_start_send(conn, start, older ? NULL : &enhanced, &data);
    return error == ENOTCONN ? EAGAIN : error; /* as some systems say it */
}

static void await_reply(struct tcp_conn *conn)
{
    vipl_log(VIPL_LOG_DEBUG, "port %u: request in revision %u", (unsigned)conn->peer.port,
             (unsigned)conn->start.revision);
    conn->state = TCP_REQUEST_SENT;
    vipl_tcp_conn_deadline(conn, PARALLEL_MS);
    vipl_tcp_conn_watch(conn, TCP_READABLE);
}

static void await_connected(struct tcp_conn *conn)
{
    vipl_log(VIPL_LOG_DEBUG, "port %u: connecting", (unsigned)conn->peer.port);
    vipl_tcp_conn_deadline(conn, PARALLEL_MS);
    vipl_tcp_conn_watch(conn, TCP_WRITABLE);
}

/* Within a host TCP has connected when the system's call is over. 0: a reply, or TCP, is waited for. */
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
    error = send_request(conn);
    if (error == 0) {
        await_reply(conn);
    } else if (error == EAGAIN) {
        await_connected(conn);
    } else {
        drop(conn);
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
            op->unasked &= ~(1u << op->probe);
            return;
        }
        note_error(op, op->probe, error);
    }
    pause_probing(op);
}

static void next_probe(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    bool current = op->conn == conn;
    drop(conn);
    if (current) {
        op->probe++;
        probe_ports(op);
    }
}

/* The port has not replied yet: it is far away, or its program is busy. The next port is probed in parallel. */
static void go_on_in_parallel(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    if (conn->state == TCP_CONNECTING) {
        vipl_tcp_conn_deadline(conn, PROBE_MS);
    }
    op->outstanding[op->probe++] = conn;
    op->conn = NULL;
    probe_ports(op);
}

/* A connection's time is over, or it broke, before it was open. */
static void op_lost(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    if (conn->state == TCP_REPLY_SENT) { /* the peer has withdrawn its request; its next may come */
        drop(conn);
        return;
    }
    if (op->conn == conn) {
        go_on_in_parallel(conn);
    } else if (conn->state == TCP_CONNECTING) {
        op->no_reply = true;
        drop(conn);
    }
}

/* TCP_CONNECTING: TCP has decided. */
static void on_connected(struct tcp_conn *conn)
{
    int error = vipl_socket_connect_result(conn->fd);
    error = error == 0 ? send_request(conn) : error;
    if (error == 0) {
        await_reply(conn);
    } else if (error != EAGAIN) {
        note_error(conn->connect_op, conn->probe, error);
        next_probe(conn);
    }
}

/* --- the reply --- */

/* The connection is open. False: the VI does not wait for it any more, and it ends. */
static bool tell_vi(struct tcp_conn *conn)
{
    if (vipl_up_connected(conn->vi, &conn->params)) {
        return true;
    }
    vipl_tcp_conn_detach(conn);
    vipl_tcp_conn_end(conn);
    return false;
}

/* The operation has got its connection. */
static void take_up(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    struct vipl_vi *vi = op->vi;
    part(conn);
    drop_all(op);
    end_op(op);
    vipl_tcp_conn_attach(conn, vi);
    if (conn->foreign) {
        vipl_tcp_open_foreign(conn, false);
    } else {
        vipl_tcp_open(conn);
    }
    if (!conn->foreign || vipl_tcp_foreign_gets_ready(conn)) { /* before any of the program's messages */
        vipl_tcp_send_empty(conn, conn->foreign ? vipl_tcp_ready_op(&conn->enhanced) : VIPL_RDMAP_WRITE);
    }
    tell_vi(conn);
}

static void accepted(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    conn->params = data->params;
    conn->segment = data->segment < TCP_SEGMENT ? data->segment : TCP_SEGMENT;
    take_up(conn);
}

static void refused(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    struct tcp_connect_op *op = conn->connect_op;
    vipl_log(VIPL_LOG_DEBUG, "port %u: refused, reason %u", (unsigned)conn->peer.port, data->reason);
    op->refused = true;
    if (data->reason == TCP_REJECTED) {
        fail_op(op, VIP_REJECT);
    } else if (data->reason == TCP_DISAGREES) {
        fail_op(op, data->code == VIP_SUCCESS ? VIP_REJECT : (VIP_RETURN)data->code);
    } else {
        next_probe(conn);
    }
}

/* --- the reply of a foreign peer --- */

/* The peer at that port may know revision 1 only: the next request there is in revision 1, and comes now if this
 * is the probe under way. The one after that is in revision 2 again. False: this one was in revision 1. */
static bool request_in_older(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    bool current = op->conn == conn;
    op->older ^= 1u << conn->probe;
    if (conn->start.revision == 1) {
        return false;
    }
    drop(conn);
    if (current) {
        probe_ports(op);
    }
    return true;
}

/* A foreign peer accepts. It cannot compare what the two ends are, so we do. */
static void accepted_by_foreign(struct tcp_conn *conn, const struct vipl_mpa_start *start)
{
    struct tcp_connect_op *op = conn->connect_op;
    vipl_tcp_foreign_params(&conn->params);
    VIP_RETURN rc = vipl_params_agree(&op->params, &conn->params);
    if (rc != VIP_SUCCESS) {
        fail_op(op, rc);
    } else if (start->revision > conn->start.revision || op->peer || !vipl_tcp_foreign_begin(conn, start)) {
        op->refused = true;
        next_probe(conn);
    } else {
        vipl_log(VIPL_LOG_DEBUG, "port %u: a foreign peer, MPA revision %u", (unsigned)conn->peer.port,
                 (unsigned)start->revision);
        conn->start = *start;
        take_up(conn);
    }
}

/* No VIPL peer, or no peer at all: it has closed the connection, or sent what is no reply. */
static void replied_by_other(struct tcp_conn *conn, const struct vipl_mpa_start *start, bool hung_up)
{
    if ((hung_up || (start != NULL && start->reject && start->revision < conn->start.revision)) &&
        request_in_older(conn)) {
        return;
    }
    if (start != NULL && !start->reject) {
        accepted_by_foreign(conn, start);
    } else if (start != NULL) {
        fail_op(conn->connect_op, VIP_REJECT);
    } else {
        conn->connect_op->refused = true;
        next_probe(conn);
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
        replied_by_other(conn, private == NULL ? NULL : &start, private == NULL && conn->rx.have == 0);
        return;
    }
    bool vipl = vipl_tcp_private_data_read(private, bytes, &data) && !start.markers;
    conn->crc = conn->crc || (vipl && start.crc);
    if (vipl && !start.reject && data.kind == TCP_ACCEPT && data.segment >= 512) {
        accepted(conn, &data);
    } else if (vipl && start.reject && data.kind == TCP_REFUSE) {
        refused(conn, &data);
    } else {
        conn->connect_op->refused = true; /* by a peer that breaks the protocol */
        next_probe(conn);
    }
}

/* --- peer-to-peer requests that listen --- */

static bool fits(const struct tcp_connect_op *op, const struct tcp_conn *conn,
                 const struct tcp_private_data *data)
{
    return op->peer && op->conn == NULL && vipl_tcp_same_host(&op->target, &conn->peer) &&
           vipl_address_same_discriminator(&op->local, &data->to) &&
           vipl_address_same_discriminator(&op->remote, &data->from) && (!op->probing || op->tied);
}

bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    struct tcp_nic *nic = conn->nic;
    struct tcp_connect_op *op = NULL;
    for (struct vipl_list *l = nic->connect_ops.next; l != &nic->connect_ops && op == NULL; l = l->next) {
        struct tcp_connect_op *each = VIPL_CONTAINER(l, struct tcp_connect_op, link);
        op = fits(each, conn, data) ? each : NULL;
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
        op_lost(conn);
    }
    return true;
}

/* Peer-to-peer: the peer has our reply. */
static bool op_opened(struct tcp_conn *conn)
{
    struct tcp_connect_op *op = conn->connect_op;
    op->conn = NULL;
    conn->connect_op = NULL;
    end_op(op);
    vipl_tcp_open(conn);
    return tell_vi(conn);
}

/* --- operations begin and end --- */

static int order(const struct vipl_address *a, const struct vipl_address *b)
{
    int hosts = memcmp(a->host, b->host, sizeof(a->host));
    if (hosts != 0) {
        return hosts;
    }
    int discs = memcmp(a->disc, b->disc, sizeof(a->disc));
    return discs != 0 ? discs : (int)a->disc_len - (int)b->disc_len;
}

static VIP_RETURN begin(struct tcp_connect_op *op)
{
    int by_name = op->peer ? order(&op->local, &op->remote) : 1;
    op->probing = by_name >= 0;
    op->tied = by_name == 0;
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
                            const struct vipl_address *remote, bool peer)
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
    op->peer = peer;
    vipl_up_vi_params(vi, &op->params);
    if (peer && (op->params.rdma_write || op->params.rdma_read)) {
        (void)vipl_up_need_service(nic->core); /* the thread that sees the connection open may not start it */
    }
    vipl_biased_lock(&nic->lock);
    vipl_tcp_timer_init(&op->timer, on_pause_over);
    vipl_list_append(&nic->connect_ops, &op->link);
    tcp_vi_of(vi)->connect_op = op;
    VIP_RETURN rc = begin(op);
    if (rc != VIP_SUCCESS) {
        end_op(op);
    }
    vipl_tcp_unlock(nic);
    return rc;
}

/* What the time that is up means: whether a peer has the request, it may be at a port that could not be asked, no port belongs to
 * it, or the host cannot be reached. */
static VIP_RETURN how_far(const struct tcp_connect_op *op)
{
    bool requested = op->conn != NULL && op->conn->state == TCP_REPLY_SENT;
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        requested |= op->outstanding[i] != NULL && op->outstanding[i]->state == TCP_REQUEST_SENT;
    }
    if (requested) {
        return VIP_TIMEOUT; /* a peer has our request, and did not reply in time */
    }
    if (op->unasked != 0) {
        return VIP_ERROR_RESOURCE;
    }
    if (op->refused || (op->conn == NULL && !op->probing)) {
        return VIP_NO_MATCH;
    }
    return op->unreachable ? VIP_NOT_REACHABLE : VIP_TIMEOUT;
}

VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    VIP_RETURN rc = VIP_SUCCESS;
    (void)withdrawn; /* nothing is waited for */
    vipl_biased_lock(&nic->lock);
    struct tcp_connect_op *op = tcp_vi_of(vi)->connect_op;
    if (op != NULL) {
        rc = how_far(op);
        drop_all(op);
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
    op_lost(conn);
}

static const struct tcp_handler connecting = {
    .ready = connecting_ready, .expired = op_lost, .first_fpdu = op_opened, .failed = connecting_failed};
