/* SPDX-License-Identifier: MIT */
/*
 * The requesting side. A request walks over the ports its target's discriminator may have, and begins anew after a
 * while, until it is answered or its time is up: programs start in any order. Of two symmetric requests the one with
 * the smaller name listens and the other walks; where both have one name, the one that gets a port listens.
 */
#include <errno.h>
#include <string.h>

#include "backends/tcp/tcp.h"
#include "base/log.h"

enum { PROBE_MS = 3000, BESIDE_MS = 20, FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 100 };

static void walk(struct tcp_call *call);

/* --- a call's end --- */

static void on_freed(uv_handle_t *handle)
{
    vipl_free(handle->data);
}

/* The call is over. Its connection, if it has one, is the caller's. */
static void end_call(struct tcp_call *call)
{
    tcp_vi_of(call->vi)->call = NULL;
    vipl_list_remove(&call->link);
    if (call->listener != NULL) {
        call->listener->peers--;
        vipl_tcp_listener_release(call->listener);
    }
    uv_close((uv_handle_t *)&call->timer, on_freed);
    vipl_tcp_changed(call->be);
}

/* Takes a connection from its call; it may have the VI already. */
static void part(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        call->asked[i] = call->asked[i] == conn ? NULL : call->asked[i];
    }
    call->conn = call->conn == conn ? NULL : call->conn;
    conn->call = NULL;
    vipl_tcp_conn_detach(conn);
}

static void drop(struct tcp_conn *conn)
{
    part(conn);
    vipl_tcp_conn_close(conn);
}

static void drop_all(struct tcp_call *call)
{
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        if (call->asked[i] != NULL) {
            drop(call->asked[i]);
        }
    }
    if (call->conn != NULL) {
        drop(call->conn);
    }
}

static void fail_call(struct tcp_call *call, VIP_RETURN rc)
{
    struct vipl_vi *vi = call->vi;
    drop_all(call);
    end_call(call);
    vipl_up_connect_failed(vi, rc);
}

/* --- the walk --- */

static void on_pause_over(uv_timer_t *timer)
{
    struct tcp_call *call = timer->data;
    if (call->conn == NULL && call->dials) {
        call->round++;
        call->probe = 0;
        walk(call);
    }
}

static void pause_walk(struct tcp_call *call)
{
    vipl_log(VIPL_LOG_DEBUG, "walk %u is over: answered %d, unreachable %d, silent %d", call->round,
             (int)call->answered, (int)call->unreachable, (int)call->silent);
    uint32_t ms = FIRST_PAUSE_MS << (call->round < 5 ? call->round : 5);
    uv_update_time(&call->be->loop);
    uv_timer_start(&call->timer, on_pause_over, ms > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : ms, 0);
    vipl_tcp_changed(call->be);
}

static void note_error(struct tcp_call *call, int error)
{
    if (error == ECONNREFUSED || error == ECONNRESET) {
        call->answered = true;
    } else if (error == EHOSTUNREACH || error == ENETUNREACH || error == EADDRNOTAVAIL || error == EINVAL) {
        call->unreachable = true;
    } else {
        call->silent = true;
    }
}

/* Tries for a port of both sides' name. True: we have it, and the other side is to come to us. */
static bool try_to_listen(struct tcp_call *call)
{
    if (!call->tied) {
        return false;
    }
    struct tcp_listener *listener =
        vipl_tcp_listener(call->be, &call->local, call->round % vipl_tcp_probes(&call->be->settings), true);
    if (listener == NULL || listener->peers > 0) {
        return false;
    }
    listener->peers++;
    call->listener = listener;
    call->dials = false;
    return true;
}

static void walk(struct tcp_call *call)
{
    struct vipl_be_nic *be = call->be;
    if (call->probe == 0 && try_to_listen(call)) {
        return;
    }
    for (; call->probe < vipl_tcp_probes(&be->settings); call->probe++) {
        struct vipl_inet target = call->target;
        int fd;
        if (call->asked[call->probe] != NULL) {
            continue;
        }
        target.port = vipl_tcp_port(&be->settings, &call->remote, call->probe);
        int error = vipl_socket_connect(&be->inet, &target, &fd);
        struct tcp_conn *conn = error == 0 ? vipl_tcp_conn_new(be, fd, TCP_DIALING) : NULL;
        if (conn != NULL) {
            conn->call = call;
            conn->peer = target;
            conn->probe = call->probe;
            call->conn = conn;
            vipl_log(VIPL_LOG_DEBUG, "port %u: dialing", (unsigned)target.port);
            vipl_tcp_conn_deadline(conn, BESIDE_MS);
            vipl_tcp_conn_watch(conn, UV_WRITABLE);
            return;
        }
        note_error(call, error);
    }
    pause_walk(call);
}

static void next_probe(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    bool current = call->conn == conn;
    drop(conn);
    if (current) {
        call->probe++;
        walk(call);
    }
}

/* The port is silent: far away, or of somebody who is busy. The walk goes on beside it. */
static void leave_beside(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    if (conn->state == TCP_DIALING) {
        vipl_tcp_conn_deadline(conn, PROBE_MS);
    }
    call->asked[call->probe++] = conn;
    call->conn = NULL;
    walk(call);
}

void vipl_tcp_call_lost(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    if (conn->state == TCP_OPENING) { /* the peer took its request back; the next may come */
        drop(conn);
        return;
    }
    if (call->conn == conn) {
        leave_beside(conn);
    } else if (conn->state == TCP_DIALING) {
        call->silent = true;
        drop(conn);
    }
}

void vipl_tcp_dialed(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    int error = vipl_socket_connect_result(conn->fd);
    if (error != 0) {
        note_error(call, error);
        next_probe(conn);
        return;
    }
    struct tcp_hello hello = {.kind = call->peer ? TCP_PEER_REQUEST : TCP_REQUEST,
                              .params = call->params,
                              .segment = TCP_SEGMENT,
                              .from = call->local,
                              .to = call->remote};
    bool older = (call->older & 1u << conn->probe) != 0;
    struct vipl_mpa_start start = {.crc = vipl_tcp_wants_crc(conn), .revision = older ? 1 : 2};
    struct vipl_mpa_enhanced enhanced = {.ird = TCP_READS,
                                         .ord = TCP_READS,
                                         .peer_to_peer = true,
                                         .rtr_send = true,
                                         .rtr_write = true,
                                         .rtr_read = true};
    vipl_log(VIPL_LOG_DEBUG, "port %u: asking in revision %u", (unsigned)conn->peer.port,
             (unsigned)start.revision);
    conn->state = TCP_ASKING;
    conn->crc = start.crc;
    conn->start = start;
    vipl_tcp_conn_deadline(conn, BESIDE_MS);
    vipl_tcp_conn_watch(conn, UV_READABLE);
    if (!vipl_tcp_start_send(conn, start, older ? NULL : &enhanced, &hello)) {
        next_probe(conn);
    }
}

/* --- the answer --- */

/* The call has got its connection. */
static void take_up(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    struct vipl_vi *vi = call->vi;
    part(conn);
    drop_all(call);
    end_call(call);
    vipl_tcp_conn_attach(conn, vi);
    vipl_tcp_conn_open(conn);
    if (conn->foreign) {
        vipl_tcp_foreign_fresh(conn, false);
    }
    if (!conn->foreign || vipl_tcp_foreign_gets_ready(conn)) { /* before any of the program's */
        vipl_tcp_first_frame(conn, conn->foreign ? vipl_tcp_ready_op(&conn->enhanced) : VIPL_RDMAP_WRITE);
    }
    if (!vipl_up_connected(vi, &conn->params)) {
        vipl_tcp_conn_detach(conn);
        vipl_tcp_conn_end(conn);
    }
}

static void accepted(struct tcp_conn *conn, const struct tcp_hello *hello)
{
    conn->params = hello->params;
    conn->segment = hello->segment < TCP_SEGMENT ? hello->segment : TCP_SEGMENT;
    take_up(conn);
}

static void refused(struct tcp_conn *conn, const struct tcp_hello *hello)
{
    struct tcp_call *call = conn->call;
    vipl_log(VIPL_LOG_DEBUG, "port %u: refused, reason %u", (unsigned)conn->peer.port, hello->reason);
    call->answered = true;
    if (hello->reason == TCP_REJECTED) {
        fail_call(call, VIP_REJECT);
    } else if (hello->reason == TCP_DISAGREES) {
        fail_call(call, hello->code == VIP_SUCCESS ? VIP_REJECT : (VIP_RETURN)hello->code);
    } else {
        next_probe(conn);
    }
}

/* --- the answer of somebody else --- */

/* Whoever is at that port may know revision 1 only: it is asked so the next time, which is now if the walk is there. The
 * time after that it is asked as at first. False: it has been asked so. */
static bool ask_in_older(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    bool current = call->conn == conn;
    call->older ^= 1u << conn->probe;
    if (conn->start.revision == 1) {
        return false;
    }
    drop(conn);
    if (current) {
        walk(call);
    }
    return true;
}

/* Somebody's yes that is no VI's. What the two ends are is for us to compare. */
static void accepted_by_foreign(struct tcp_conn *conn, const struct vipl_mpa_start *start)
{
    struct tcp_call *call = conn->call;
    vipl_tcp_foreign_facts(&conn->params);
    VIP_RETURN rc = vipl_params_agree(&call->params, &conn->params);
    if (rc != VIP_SUCCESS) {
        fail_call(call, rc);
    } else if (start->revision > conn->start.revision || call->peer || !vipl_tcp_foreign_begin(conn, start)) {
        call->answered = true;
        next_probe(conn);
    } else {
        vipl_log(VIPL_LOG_DEBUG, "port %u: a foreign peer, MPA revision %u", (unsigned)conn->peer.port,
                 (unsigned)start->revision);
        conn->start = *start;
        take_up(conn);
    }
}

/* Not one of us, or nobody at all: it hung up, or said what is no reply. */
static void replied_by_other(struct tcp_conn *conn, const struct vipl_mpa_start *start, bool silent)
{
    if ((silent || (start != NULL && start->reject && start->revision < conn->start.revision)) &&
        ask_in_older(conn)) {
        return;
    }
    if (start != NULL && !start->reject) {
        accepted_by_foreign(conn, start);
    } else if (start != NULL) {
        fail_call(conn->call, VIP_REJECT);
    } else {
        conn->call->answered = true;
        next_probe(conn);
    }
}

void vipl_tcp_replied(struct tcp_conn *conn)
{
    struct vipl_mpa_start start;
    struct tcp_hello hello;
    size_t bytes;
    enum vipl_parse parsed = vipl_tcp_start_receive(conn, &start, true);
    if (parsed == VIPL_PARSE_MORE) {
        return;
    }
    const uint8_t *private = parsed == VIPL_PARSE_OK ? vipl_tcp_start_private(conn, &start, &bytes) : NULL;
    if (private == NULL || !vipl_tcp_hello_is_ours(private, bytes)) {
        conn->crc = conn->crc || (private != NULL && start.crc);
        replied_by_other(conn, private == NULL ? NULL : &start, private == NULL && conn->rx.have == 0);
        return;
    }
    bool ours = vipl_tcp_hello_read(private, bytes, &hello) && !start.markers;
    conn->crc = conn->crc || (ours && start.crc);
    if (ours && !start.reject && hello.kind == TCP_ACCEPT && hello.segment >= 512) {
        accepted(conn, &hello);
    } else if (ours && start.reject && hello.kind == TCP_REFUSE) {
        refused(conn, &hello);
    } else {
        conn->call->answered = true; /* by something else */
        next_probe(conn);
    }
}

/* --- symmetric requests that listen --- */

static bool fits(const struct tcp_call *call, const struct tcp_conn *conn, const struct tcp_hello *hello)
{
    return call->peer && call->conn == NULL && vipl_tcp_same_host(&call->target, &conn->peer) &&
           vipl_tcp_same_discriminator(&call->local, &hello->to) &&
           vipl_tcp_same_discriminator(&call->remote, &hello->from) && (!call->dials || call->tied);
}

bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_hello *hello)
{
    struct vipl_be_nic *be = conn->be;
    struct tcp_call *call = NULL;
    for (struct vipl_list *l = be->calls.next; l != &be->calls && call == NULL; l = l->next) {
        struct tcp_call *each = VIPL_CONTAINER(l, struct tcp_call, link);
        call = fits(each, conn, hello) ? each : NULL;
    }
    if (call == NULL) {
        return false;
    }
    VIP_RETURN rc = vipl_params_agree(&call->params, &hello->params);
    if (rc != VIP_SUCCESS) {
        vipl_tcp_refuse(conn, TCP_DISAGREES, rc);
        fail_call(call, rc);
        return true;
    }
    conn->call = call;
    call->conn = conn;
    vipl_tcp_conn_attach(conn, call->vi);
    if (!vipl_tcp_answer_yes(conn, &call->params)) {
        vipl_tcp_call_lost(conn);
    }
    return true;
}

void vipl_tcp_call_opened(struct tcp_conn *conn)
{
    struct tcp_call *call = conn->call;
    struct vipl_vi *vi = call->vi;
    call->conn = NULL;
    conn->call = NULL;
    end_call(call);
    vipl_tcp_conn_open(conn);
    if (!vipl_up_connected(vi, &conn->params)) {
        vipl_tcp_conn_detach(conn);
        vipl_tcp_conn_end(conn);
    }
}

/* --- requests begin and end --- */

static int order(const struct vipl_address *a, const struct vipl_address *b)
{
    int hosts = memcmp(a->host, b->host, sizeof(a->host));
    if (hosts != 0) {
        return hosts;
    }
    int discs = memcmp(a->disc, b->disc, sizeof(a->disc));
    return discs != 0 ? discs : (int)a->disc_len - (int)b->disc_len;
}

static VIP_RETURN begin(struct tcp_call *call)
{
    int by_name = call->peer ? order(&call->local, &call->remote) : 1;
    call->dials = by_name >= 0;
    call->tied = by_name == 0;
    if (by_name < 0) {
        call->listener = vipl_tcp_listener(call->be, &call->local, 0, false);
        if (call->listener == NULL) {
            return VIP_ERROR_RESOURCE;
        }
        call->listener->peers++;
    } else {
        walk(call);
    }
    return VIP_SUCCESS;
}

VIP_RETURN vipl_tcp_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                            const struct vipl_address *remote, bool peer)
{
    struct tcp_call *call = vipl_zalloc(sizeof(*call));
    if (call == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    if (!vipl_tcp_from_address(remote, &be->inet, &call->target)) {
        vipl_free(call);
        return VIP_NOT_REACHABLE;
    }
    call->be = be;
    call->vi = vi;
    call->local = *local;
    call->remote = *remote;
    call->peer = peer;
    vipl_up_vi_params(vi, &call->params);
    if (peer && (call->params.rdma_write || call->params.rdma_read)) {
        (void)vipl_up_need_service(be->core); /* what sees the connection open may not start it */
    }
    vipl_mutex_lock(&be->lock);
    uv_timer_init(&be->loop, &call->timer);
    call->timer.data = call;
    vipl_list_append(&be->calls, &call->link);
    tcp_vi_of(vi)->call = call;
    VIP_RETURN rc = begin(call);
    if (rc != VIP_SUCCESS) {
        end_call(call);
    }
    vipl_tcp_unlock(be);
    return rc;
}

/* Somebody who has had a request for no time at all may be about to refuse it. */
static VIP_RETURN how_far(const struct tcp_call *call)
{
    bool asked = call->conn != NULL && call->conn->state == TCP_OPENING;
    for (unsigned i = 0; i < TCP_PROBES; i++) {
        asked |= call->asked[i] != NULL && call->asked[i]->state == TCP_ASKING;
    }
    if (asked) {
        return VIP_TIMEOUT; /* somebody has our request and did not answer in time */
    }
    if (call->answered || (call->conn == NULL && !call->dials)) {
        return VIP_NO_MATCH;
    }
    return call->unreachable ? VIP_NOT_REACHABLE : VIP_TIMEOUT;
}

VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&be->lock);
    struct tcp_call *call = tcp_vi_of(vi)->call;
    if (call != NULL) {
        rc = how_far(call);
        drop_all(call);
        end_call(call);
    }
    vipl_tcp_unlock(be);
    return rc;
}

void vipl_tcp_calls_close(struct vipl_be_nic *be)
{
    while (!vipl_list_empty(&be->calls)) {
        struct tcp_call *call = VIPL_CONTAINER(be->calls.next, struct tcp_call, link);
        drop_all(call);
        end_call(call);
    }
}
