/* SPDX-License-Identifier: MIT */
/* The accepting side: ports, half-open connections, requests, and the program's replies to them. */
#include "backends/tcp/listen.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/address.h"
#include "backends/tcp/connect.h"
#include "backends/tcp/loop.h"
#include "backends/tcp/open.h"
#include "base/log.h"

enum { ACCEPT_AGAIN_MS = 100, ACCEPT_WAIT_MS = 1000 };

/* --- listeners --- */

static void on_incoming(struct tcp_watch *watch, int events);
static const struct tcp_handler accepting;

static struct tcp_listener *find_tcp_listener(struct tcp_nic *nic, const struct vipl_address *local)
{
    for (struct vipl_list *l = nic->listeners.next; l != &nic->listeners; l = l->next) {
        struct tcp_listener *listener = VIPL_CONTAINER(l, struct tcp_listener, link);
        if (vipl_address_same_discriminator(&listener->local, local)) {
            return listener;
        }
    }
    return NULL;
}

static int bind_port(struct tcp_nic *nic, const struct vipl_address *local, unsigned probe, bool only,
                     int *fd)
{
    struct vipl_inet inet = nic->inet;
    int error = EADDRINUSE;
    for (unsigned i = probe; i < (only ? probe + 1 : nic->settings.probes) && error != 0; i++) {
        inet.port = vipl_tcp_port(&nic->settings, local, i);
        error = vipl_socket_listen(&inet, &nic->settings.tuning, fd);
    }
    return error;
}

struct tcp_listener *vipl_tcp_listener(struct tcp_nic *nic, const struct vipl_address *local, unsigned probe,
                                       bool only)
{
    struct tcp_listener *listener = find_tcp_listener(nic, local);
    int fd;
    if (listener != NULL) {
        return listener;
    }
    int error = bind_port(nic, local, probe, only, &fd);
    if (error != 0) {
        if (!only) {
            vipl_log_os(VIPL_LOG_REASON, "tcp: no port of VIPL_TCP_PORTS for this name", error);
        }
        return NULL;
    }
    listener = vipl_zalloc(sizeof(*listener));
    if (listener != NULL) {
        vipl_tcp_watch_init(&listener->watch, fd, on_incoming);
    }
    if (listener == NULL || vipl_tcp_watch_for(&nic->loop, &listener->watch, TCP_READABLE) != 0) {
        vipl_free(listener);
        vipl_fd_close(fd);
        return NULL;
    }
    listener->nic = nic;
    listener->local = *local;
    listener->fd = fd;
    vipl_list_append(&nic->listeners, &listener->link);
    vipl_tcp_changed(nic);
    return listener;
}

static void free_listener(struct tcp_ended *ended)
{
    vipl_free(VIPL_CONTAINER(ended, struct tcp_listener, ended));
}

static void close_listener(struct tcp_listener *listener)
{
    vipl_list_remove(&listener->link);
    (void)vipl_tcp_watch_for(&listener->nic->loop, &listener->watch, 0);
    vipl_fd_close(listener->fd);
    vipl_tcp_free_later(&listener->nic->loop, &listener->ended, free_listener);
    vipl_tcp_changed(listener->nic);
}

void vipl_tcp_listener_release(struct tcp_listener *listener)
{
    if (!listener->listening && listener->peers == 0) {
        close_listener(listener);
    }
}

void vipl_tcp_listeners_close(struct tcp_nic *nic)
{
    while (!vipl_list_empty(&nic->listeners)) {
        close_listener(VIPL_CONTAINER(nic->listeners.next, struct tcp_listener, link));
    }
}

VIP_RETURN vipl_tcp_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    struct tcp_listener *listener = vipl_tcp_listener(nic, local, 0, false);
    if (listener != NULL) {
        listener->listening = true;
    }
    vipl_tcp_unlock(nic);
    return listener == NULL ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

void vipl_tcp_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    struct tcp_listener *listener = find_tcp_listener(nic, local);
    if (listener != NULL) {
        listener->listening = false;
        vipl_tcp_listener_release(listener);
    }
    vipl_tcp_unlock(nic);
}

/* --- half-open connections, whose request has not come yet --- */

static struct tcp_peer_host *peer_host_of(struct tcp_nic *nic, const struct vipl_inet *peer)
{
    for (struct vipl_list *l = nic->half_open.next; l != &nic->half_open; l = l->next) {
        struct tcp_peer_host *host = VIPL_CONTAINER(l, struct tcp_peer_host, link);
        if (vipl_tcp_same_host(&host->address, peer)) {
            return host;
        }
    }
    struct tcp_peer_host *host = vipl_zalloc(sizeof(*host));
    if (host != NULL) {
        host->address = *peer;
        vipl_list_init(&host->conns);
        vipl_list_append(&nic->half_open, &host->link);
    }
    return host;
}

/* Closes the oldest half-open connection of the host that has the most, so that a host that opens
 * many does not shut out others. Returns false if there is none. */
static bool close_oldest_half_open(struct tcp_nic *nic)
{
    struct tcp_peer_host *most = NULL;
    for (struct vipl_list *l = nic->half_open.next; l != &nic->half_open; l = l->next) {
        struct tcp_peer_host *host = VIPL_CONTAINER(l, struct tcp_peer_host, link);
        most = most == NULL || host->count > most->count ? host : most;
    }
    if (most != NULL) {
        vipl_tcp_conn_close(VIPL_CONTAINER(most->conns.next, struct tcp_conn, half_open_link));
    }
    return most != NULL;
}

/* Counts a new connection among those of its host, the last of them to be closed for room. Returns
 * false if there is no memory. */
static bool add_half_open(struct tcp_conn *conn)
{
    struct tcp_nic *nic = conn->nic;
    struct tcp_peer_host *host = peer_host_of(nic, &conn->peer);
    if (host == NULL) {
        return false;
    }
    vipl_list_append(&host->conns, &conn->half_open_link);
    host->count++;
    conn->peer_host = host;
    if (++nic->half_open_count > nic->settings.half_open) {
        close_oldest_half_open(nic);
    }
    return true;
}

static void remove_half_open(struct tcp_conn *conn)
{
    struct tcp_peer_host *host = conn->peer_host;
    if (host == NULL) {
        return;
    }
    vipl_list_remove(&conn->half_open_link);
    conn->peer_host = NULL;
    conn->nic->half_open_count--;
    if (--host->count == 0) {
        vipl_list_remove(&host->link);
        vipl_free(host);
    }
}

/* --- incoming connections --- */

void vipl_tcp_accept_again(struct tcp_timer *timer)
{
    struct tcp_nic *nic = VIPL_CONTAINER(timer, struct tcp_nic, accept_timer);
    for (struct vipl_list *l = nic->listeners.next; l != &nic->listeners; l = l->next) {
        struct tcp_listener *listener = VIPL_CONTAINER(l, struct tcp_listener, link);
        if (vipl_tcp_watch_for(&nic->loop, &listener->watch, TCP_READABLE) != 0) {
            vipl_tcp_timer_start(&nic->loop, timer, ACCEPT_AGAIN_MS);
        }
    }
    vipl_tcp_changed(nic);
}

static void accept_one(struct tcp_listener *listener, int fd, const struct vipl_inet *peer)
{
    struct tcp_nic *nic = listener->nic;
    struct tcp_conn *conn = vipl_tcp_conn_new(nic, fd, TCP_AWAIT_REQUEST, &accepting);
    if (conn == NULL) {
        return;
    }
    conn->peer = *peer;
    conn->local = listener->local;
    vipl_tcp_conn_deadline(conn, nic->settings.handshake_ms);
    vipl_tcp_conn_watch(conn, TCP_READABLE);
    if (!add_half_open(conn)) {
        vipl_tcp_conn_close(conn);
    }
}

/* Closes the oldest connection whose stream this side has ended, and which only waits for the
 * peer's end. Returns false if there is none. */
static bool close_one_ending(struct tcp_nic *nic)
{
    for (struct vipl_list *l = nic->conns.next; l != &nic->conns; l = l->next) {
        struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
        if (conn->state == TCP_ENDING) {
            vipl_tcp_conn_close(conn);
            return true;
        }
    }
    return false;
}

static void on_incoming(struct tcp_watch *watch, int events)
{
    struct tcp_listener *listener = VIPL_CONTAINER(watch, struct tcp_listener, watch);
    struct tcp_nic *nic = listener->nic;
    struct vipl_inet peer;
    int fd;
    int error;
    int accepted = 0;
    (void)events;
    while ((error = vipl_socket_accept(listener->fd, &nic->settings.tuning, &fd, &peer)) == 0) {
        accept_one(listener, fd, &peer);
        if (++accepted == TCP_POLL_BUDGET) {
            return; /* the loop calls this again */
        }
    }
    bool is_short_of_resources = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (is_short_of_resources && accepted > 0) {
        /* The system says so even if no connection waits any more. If one does, the loop
         * calls this again. */
        return;
    }
    if (is_short_of_resources && !close_one_ending(nic) && !close_oldest_half_open(nic)) {
        vipl_log_os(VIPL_LOG_ERROR, "accepting a connection", error);
        (void)vipl_tcp_watch_for(&nic->loop, &listener->watch, 0);
        vipl_tcp_timer_start(&nic->loop, &nic->accept_timer, ACCEPT_AGAIN_MS);
    }
}

/* --- requests --- */

/* Hands the request to core, for the program to accept or reject. It must be for the address whose
 * port it came to. So a requester that tries several of its ports, and finds other addresses of
 * this host there, has one request. */
static void request_arrived(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    struct tcp_nic *nic = conn->nic;
    struct vipl_address local = nic->address;
    struct vipl_address remote;
    vipl_tcp_to_address(&conn->peer, &remote);
    remote.disc_len = data->from.disc_len;
    memcpy(remote.disc, data->from.disc, remote.disc_len);
    local.disc_len = data->to.disc_len;
    memcpy(local.disc, data->to.disc, local.disc_len);
    bool listens =
        vipl_address_same_discriminator(&conn->local, &local) && vipl_up_listens(nic->core, &local);
    struct vipl_conn *request =
        listens ? vipl_up_conn_arrived(nic->core, &local, &remote, &data->params) : NULL;
    if (request == NULL) {
        vipl_tcp_reply_refuse(conn, listens ? TCP_BUSY : TCP_NO_LISTENER, VIP_SUCCESS);
        return;
    }
    tcp_request_of(request)->conn = conn;
    conn->request = request;
    conn->state = TCP_PENDING_ACCEPT;
    conn->params = data->params;
}

/* The request of a VIPL peer. */
static void on_vipl_request(struct tcp_conn *conn, const struct tcp_private_data *data)
{
    conn->segment = data->segment < TCP_SEGMENT ? data->segment : TCP_SEGMENT;
    conn->params = data->params;
    if (data->kind == TCP_REQUEST) {
        request_arrived(conn, data);
    } else if (data->kind != TCP_PEER_REQUEST || !vipl_tcp_peer_arrived(conn, data)) {
        vipl_tcp_reply_refuse(conn, TCP_NO_LISTENER, VIP_SUCCESS);
    }
}

/* The request of a foreign peer, which is for the discriminator of the port that it came to. */
static void on_foreign_request(struct tcp_conn *conn)
{
    struct tcp_private_data data = {.to = conn->local};
    conn->foreign = true;
    vipl_tcp_foreign_params(&data.params);
    vipl_log(VIPL_LOG_DEBUG, "a foreign requester, MPA revision %u", (unsigned)conn->start.revision);
    request_arrived(conn, &data);
}

static void on_request(struct tcp_conn *conn)
{
    struct tcp_private_data data;
    size_t bytes;
    enum vipl_parse parsed = vipl_tcp_start_receive(conn, &conn->start, false);
    if (parsed == VIPL_PARSE_MORE) {
        return;
    }
    const uint8_t *private =
        parsed == VIPL_PARSE_OK ? vipl_tcp_start_private(conn, &conn->start, &bytes) : NULL;
    bool vipl = private != NULL && vipl_tcp_private_data_is_vipl(private, bytes);
    if (private == NULL || conn->start.revision > 2 ||
        (vipl &&
         (!vipl_tcp_private_data_read(private, bytes, &data) || data.segment < 512 || conn->start.markers))) {
        vipl_tcp_conn_close(conn);
        return;
    }
    remove_half_open(conn);
    vipl_tcp_conn_deadline(conn, 0);
    conn->crc = conn->start.crc || vipl_tcp_wants_crc(conn);
    if (vipl) {
        on_vipl_request(conn, &data);
    } else {
        on_foreign_request(conn);
    }
}

/* Whether nothing has come since the request, as the peer must wait for the reply. What comes is
 * mostly the end of the stream, and ends the connection in any case. */
static bool is_requester_waiting(struct tcp_conn *conn)
{
    uint8_t byte;
    struct vipl_iov one = {&byte, 1};
    size_t n = 0;
    return vipl_socket_receive(conn->fd, &one, 1, &n) == EAGAIN;
}

static void on_pending_readable(struct tcp_conn *conn)
{
    struct vipl_conn *request = conn->request;
    if (is_requester_waiting(conn)) {
        return;
    }
    tcp_request_of(request)->conn = NULL;
    conn->request = NULL;
    vipl_tcp_conn_close(conn);
    vipl_up_conn_gone(request);
}

/* --- the program accepts or rejects --- */

/* Takes the connection of a request that is about to be decided; NULL: the requester is gone. */
static struct tcp_conn *take_request_conn(struct vipl_conn *request)
{
    struct tcp_conn *conn = tcp_request_of(request)->conn;
    if (conn != NULL) {
        tcp_request_of(request)->conn = NULL;
        conn->request = NULL;
    }
    return conn;
}

/* A requester that probes several ports may have withdrawn the request, because another program has
 * accepted it, before this process has seen the end of the connection. */
bool vipl_tcp_conn_taken(struct vipl_be_nic *be, struct vipl_conn *request)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    struct tcp_conn *conn = tcp_request_of(request)->conn;
    bool waits = conn != NULL && is_requester_waiting(conn);
    if (conn != NULL && !waits) {
        vipl_tcp_conn_close(take_request_conn(request));
    }
    vipl_tcp_unlock(nic);
    return waits;
}

/* Tells core that the connection is open. Returns false if the VI does not wait for it any more;
 * conn_accept then ends the connection. */
static bool end_acceptance(struct tcp_conn *conn)
{
    struct tcp_acceptance *acceptance = conn->acceptance;
    conn->acceptance = NULL;
    acceptance->opened = vipl_up_connected(conn->vi, &conn->params);
    acceptance->over = true;
    if (!acceptance->opened) {
        conn->broken = true;
        vipl_tcp_conn_watch(conn, 0);
    }
    return acceptance->opened;
}

VIP_RETURN vipl_tcp_conn_accept(struct vipl_be_nic *be, struct vipl_conn *request, struct vipl_vi *vi)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    struct tcp_acceptance acceptance = {false, false};
    struct vipl_vi_params params;
    vipl_up_vi_params(vi, &params);
    vipl_biased_lock(&nic->lock);
    struct tcp_conn *conn = take_request_conn(request);
    if (conn != NULL) {
        vipl_tcp_conn_attach(conn, vi);
        conn->acceptance = &acceptance;
        acceptance.over = !vipl_tcp_reply_accept(conn, &params, &accepting);
        if (!acceptance.over && conn->foreign && !vipl_tcp_foreign_gets_ready(conn)) {
            vipl_tcp_open_foreign(conn, true); /* posts wait for the peer's first FPDU */
            end_acceptance(conn);
        }
        while (!acceptance.over) {
            vipl_tcp_unlock(nic);
            if (!vipl_up_await_connected(vi, ACCEPT_WAIT_MS)) {
                return VIP_TIMEOUT;
            }
            vipl_biased_lock(&nic->lock);
        }
        if (!acceptance.opened) { /* otherwise the connection may have ended by now */
            vipl_tcp_conn_detach(conn);
            vipl_tcp_conn_close(conn);
        }
    }
    vipl_tcp_unlock(nic);
    return acceptance.opened ? VIP_SUCCESS : VIP_TIMEOUT;
}

void vipl_tcp_conn_reject(struct vipl_be_nic *be, struct vipl_conn *request, bool answer)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    struct tcp_conn *conn = take_request_conn(request);
    if (conn != NULL) {
        vipl_tcp_reply_refuse(conn, answer ? TCP_REJECTED : TCP_NO_LISTENER, VIP_SUCCESS);
    }
    vipl_tcp_unlock(nic);
}

/* --- what happens to a connection until it is open --- */

static void accepting_ready(struct tcp_conn *conn, int events)
{
    (void)events;
    if (conn->state == TCP_AWAIT_REQUEST) {
        on_request(conn);
    } else if (conn->state == TCP_PENDING_ACCEPT) {
        on_pending_readable(conn);
    } else {
        vipl_tcp_receive(conn);
    }
}

static void accepting_expired(struct tcp_conn *conn)
{
    if (conn->state == TCP_AWAIT_REQUEST) {
        vipl_tcp_conn_close(conn);
    } else {
        vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
    }
}

/* The requester has the reply. */
static bool accepting_first_fpdu(struct tcp_conn *conn)
{
    vipl_tcp_open(conn);
    return end_acceptance(conn);
}

/* In TCP_REPLY_SENT: conn_accept ends the connection. */
static void accepting_failed(struct tcp_conn *conn, VIP_ERROR_CODE code)
{
    (void)code;
    conn->acceptance->over = true;
    vipl_up_connect_failed(conn->vi, VIP_TIMEOUT);
}

static const struct tcp_handler accepting = {.ready = accepting_ready,
                                             .expired = accepting_expired,
                                             .first_fpdu = accepting_first_fpdu,
                                             .failed = accepting_failed,
                                             .closing = remove_half_open};
