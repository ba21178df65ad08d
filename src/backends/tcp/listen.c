/* SPDX-License-Identifier: MIT */
/* The waiting side: ports, half-open connections, requests, and their answers. */
#include <errno.h>
#include <string.h>

#include "backends/tcp/tcp.h"
#include "base/log.h"

enum { MOST_IDLE = 64, ACCEPT_AGAIN_MS = 100, ACCEPT_LOOK_MS = 1000 };

/* --- listeners --- */

static void on_incoming(uv_poll_t *watch, int status, int events);

static struct tcp_listener *find(struct vipl_be_nic *be, const struct vipl_address *local)
{
    for (struct vipl_list *l = be->listeners.next; l != &be->listeners; l = l->next) {
        struct tcp_listener *listener = VIPL_CONTAINER(l, struct tcp_listener, link);
        if (vipl_tcp_same_discriminator(&listener->local, local)) {
            return listener;
        }
    }
    return NULL;
}

static bool is_idle(const struct tcp_listener *listener)
{
    return listener->waiting == 0 && listener->peers == 0;
}

static int bind_one(struct vipl_be_nic *be, const struct vipl_address *local, unsigned probe, bool only,
                    int *fd)
{
    struct vipl_inet inet = be->inet;
    int error = EADDRINUSE;
    for (unsigned i = probe; i < (only ? probe + 1 : vipl_tcp_probes(&be->settings)) && error != 0; i++) {
        inet.port = vipl_tcp_port(&be->settings, local, i);
        error = vipl_socket_listen(&inet, fd);
    }
    return error;
}

struct tcp_listener *vipl_tcp_listener(struct vipl_be_nic *be, const struct vipl_address *local,
                                       unsigned probe, bool only)
{
    struct tcp_listener *listener = find(be, local);
    int fd;
    if (listener != NULL) {
        be->idle_listeners -= listener->waited && is_idle(listener) ? 1 : 0; /* about to be used */
        return listener;
    }
    int error = bind_one(be, local, probe, only, &fd);
    if (error != 0) {
        if (!only) {
            vipl_log_os("listening", error);
        }
        return NULL;
    }
    listener = vipl_zalloc(sizeof(*listener));
    if (listener == NULL || !vipl_tcp_has_room(be, fd) ||
        uv_poll_init(&be->loop, &listener->watch, fd) != 0) {
        vipl_free(listener);
        vipl_fd_close(fd);
        return NULL;
    }
    listener->be = be;
    listener->local = *local;
    listener->fd = fd;
    listener->watch.data = listener;
    vipl_list_append(&be->listeners, &listener->link);
    uv_poll_start(&listener->watch, UV_READABLE, on_incoming);
    vipl_tcp_changed(be);
    return listener;
}

static void on_listener_closed(uv_handle_t *handle)
{
    vipl_free(handle->data);
}

static void close_listener(struct tcp_listener *listener)
{
    vipl_list_remove(&listener->link);
    uv_close((uv_handle_t *)&listener->watch, on_listener_closed);
    vipl_fd_close(listener->fd);
    vipl_tcp_changed(listener->be);
}

void vipl_tcp_listener_release(struct tcp_listener *listener)
{
    struct vipl_be_nic *be = listener->be;
    if (!is_idle(listener)) {
        return;
    }
    if (!listener->waited) { /* nobody but symmetric requests has used it */
        close_listener(listener);
        return;
    }
    vipl_list_remove(&listener->link);
    vipl_list_append(&be->listeners, &listener->link);
    be->idle_listeners++;
    for (struct vipl_list *l = be->listeners.next; be->idle_listeners > MOST_IDLE; l = l->next) {
        struct tcp_listener *oldest = VIPL_CONTAINER(l, struct tcp_listener, link);
        if (is_idle(oldest)) {
            be->idle_listeners--;
            close_listener(oldest);
            return;
        }
    }
}

void vipl_tcp_listeners_close(struct vipl_be_nic *be)
{
    while (!vipl_list_empty(&be->listeners)) {
        close_listener(VIPL_CONTAINER(be->listeners.next, struct tcp_listener, link));
    }
}

VIP_RETURN vipl_tcp_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&be->lock);
    struct tcp_listener *listener = vipl_tcp_listener(be, local, 0, false);
    if (listener != NULL) {
        listener->waited = true;
        listener->waiting++;
    }
    vipl_tcp_unlock(be);
    return listener == NULL ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

void vipl_tcp_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_mutex_lock(&be->lock);
    struct tcp_listener *listener = find(be, local);
    if (listener != NULL) {
        listener->waiting--;
        vipl_tcp_listener_release(listener);
    }
    vipl_tcp_unlock(be);
}

/* --- half-open connections: accepted, and not yet asking for anything --- */

static struct tcp_source *source_of(struct vipl_be_nic *be, const struct vipl_inet *host)
{
    for (struct vipl_list *l = be->half_open.next; l != &be->half_open; l = l->next) {
        struct tcp_source *source = VIPL_CONTAINER(l, struct tcp_source, link);
        if (vipl_tcp_same_host(&source->host, host)) {
            return source;
        }
    }
    struct tcp_source *source = vipl_zalloc(sizeof(*source));
    if (source != NULL) {
        source->host = *host;
        vipl_list_init(&source->conns);
        vipl_list_append(&be->half_open, &source->link);
    }
    return source;
}

/* The oldest connection of the address that has the most gives way: whoever opens many shuts out nobody else. */
static bool give_way(struct vipl_be_nic *be)
{
    struct tcp_source *most = NULL;
    for (struct vipl_list *l = be->half_open.next; l != &be->half_open; l = l->next) {
        struct tcp_source *source = VIPL_CONTAINER(l, struct tcp_source, link);
        most = most == NULL || source->count > most->count ? source : most;
    }
    if (most != NULL) {
        vipl_tcp_conn_close(VIPL_CONTAINER(most->conns.next, struct tcp_conn, phase));
    }
    return most != NULL;
}

/* False: no memory. The newcomer counts among its address's, and is the last of them to give way. */
static bool half_open_enter(struct tcp_conn *conn)
{
    struct vipl_be_nic *be = conn->be;
    struct tcp_source *source = source_of(be, &conn->peer);
    if (source == NULL) {
        return false;
    }
    vipl_list_append(&source->conns, &conn->phase);
    source->count++;
    conn->source = source;
    if (++be->half_open_count > be->settings.half_open) {
        give_way(be);
    }
    return true;
}

void vipl_tcp_half_open_leave(struct tcp_conn *conn)
{
    struct tcp_source *source = conn->source;
    if (source == NULL) {
        return;
    }
    vipl_list_remove(&conn->phase);
    conn->source = NULL;
    conn->be->half_open_count--;
    if (--source->count == 0) {
        vipl_list_remove(&source->link);
        vipl_free(source);
    }
}

/* --- connections come in --- */

static void on_accept_again(uv_timer_t *timer)
{
    struct vipl_be_nic *be = timer->loop->data;
    for (struct vipl_list *l = be->listeners.next; l != &be->listeners; l = l->next) {
        uv_poll_start(&VIPL_CONTAINER(l, struct tcp_listener, link)->watch, UV_READABLE, on_incoming);
    }
    vipl_tcp_changed(be);
}

static void take_in(struct tcp_listener *listener, int fd, const struct vipl_inet *peer)
{
    struct vipl_be_nic *be = listener->be;
    struct tcp_conn *conn = vipl_tcp_conn_new(be, fd, TCP_GREETING);
    if (conn == NULL) {
        return;
    }
    conn->peer = *peer;
    conn->local = listener->local;
    vipl_tcp_conn_deadline(conn, be->settings.handshake_ms);
    vipl_tcp_conn_watch(conn, UV_READABLE);
    if (!half_open_enter(conn)) {
        vipl_tcp_conn_close(conn);
    }
}

/* The oldest connection whose stream we have ended: it only waits for the peer to end it too. */
static bool ended_gives_way(struct vipl_be_nic *be)
{
    for (struct vipl_list *l = be->conns.next; l != &be->conns; l = l->next) {
        struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
        if (conn->state == TCP_ENDING) {
            vipl_tcp_conn_close(conn);
            return true;
        }
    }
    return false;
}

static void on_incoming(uv_poll_t *watch, int status, int events)
{
    struct tcp_listener *listener = watch->data;
    struct vipl_be_nic *be = listener->be;
    struct vipl_inet peer;
    int fd;
    int error;
    (void)status;
    (void)events;
    bool any = false;
    while ((error = vipl_socket_accept(listener->fd, &fd, &peer)) == 0) {
        take_in(listener, fd, &peer);
        any = true;
    }
    bool short_of = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    if (short_of && any) {
        return; /* the system says so even if nobody waits any more; else the loop comes here again */
    }
    if (short_of && !ended_gives_way(be) && !give_way(be)) {
        vipl_log_os("accepting a connection", error);
        uv_poll_stop(&listener->watch);
        uv_timer_start(&be->accept_timer, on_accept_again, ACCEPT_AGAIN_MS, 0);
    }
}

/* --- what they want --- */

bool vipl_tcp_wants_crc(const struct tcp_conn *conn)
{
    uint32_t setting = conn->be->settings.crc;
    return setting == TCP_CRC_ON || (setting == TCP_CRC_AUTO && !vipl_socket_is_local(conn->fd));
}

static struct vipl_mpa_start reply_to(const struct tcp_conn *conn, bool reject)
{
    return (struct vipl_mpa_start){
        .reply = true, .crc = conn->crc, .reject = reject, .revision = conn->start.revision};
}

static bool send_reply(struct tcp_conn *conn, bool reject, const struct tcp_hello *hello)
{
    struct vipl_mpa_enhanced ours = {.ird = TCP_READS,
                                     .ord = TCP_READS,
                                     .peer_to_peer = conn->enhanced.peer_to_peer,
                                     .rtr_write = conn->enhanced.peer_to_peer};
    if (conn->foreign) {
        ours = vipl_tcp_foreign_answer(&conn->enhanced);
        hello = NULL; /* it could not read it */
    }
    return vipl_tcp_start_send(conn, reply_to(conn, reject), conn->start.enhanced ? &ours : NULL, hello);
}

bool vipl_tcp_answer_yes(struct tcp_conn *conn, const struct vipl_vi_params *params)
{
    struct tcp_hello hello = {.kind = TCP_ACCEPT, .params = *params, .segment = TCP_SEGMENT};
    if (conn->foreign && !vipl_tcp_foreign_begin(conn, &conn->start)) {
        return false;
    }
    conn->state = TCP_OPENING;
    vipl_tcp_conn_deadline(conn, conn->be->settings.handshake_ms);
    return send_reply(conn, false, &hello);
}

void vipl_tcp_refuse(struct tcp_conn *conn, enum tcp_refusal reason, VIP_RETURN code)
{
    struct tcp_hello hello = {.kind = TCP_REFUSE, .reason = (uint8_t)reason, .code = (uint8_t)code};
    if (send_reply(conn, true, &hello)) {
        vipl_tcp_conn_end(conn);
    } else {
        vipl_tcp_conn_close(conn);
    }
}

/* The request is the program's: core has it from here on. */
static void offer(struct tcp_conn *conn, const struct tcp_hello *hello)
{
    struct vipl_be_nic *be = conn->be;
    struct vipl_address local = be->address;
    struct vipl_address remote;
    vipl_tcp_to_address(&conn->peer, &remote);
    remote.disc_len = hello->from.disc_len;
    memcpy(remote.disc, hello->from.disc, remote.disc_len);
    local.disc_len = hello->to.disc_len;
    memcpy(local.disc, hello->to.disc, local.disc_len);
    const struct tcp_listener *listener = find(be, &local);
    bool somebody = listener != NULL && listener->waited;
    struct vipl_conn *request =
        somebody ? vipl_up_conn_arrived(be->core, &local, &remote, &hello->params) : NULL;
    if (request == NULL) {
        vipl_tcp_refuse(conn, somebody ? TCP_BUSY : TCP_NOBODY, VIP_SUCCESS);
        return;
    }
    tcp_request_of(request)->conn = conn;
    conn->request = request;
    conn->state = TCP_OFFERED;
    conn->params = hello->params;
}

/* One of us: what it says decides. */
static void greet_ours(struct tcp_conn *conn, const struct tcp_hello *hello)
{
    conn->segment = hello->segment < TCP_SEGMENT ? hello->segment : TCP_SEGMENT;
    conn->params = hello->params;
    if (hello->kind == TCP_REQUEST) {
        offer(conn, hello);
    } else if (hello->kind != TCP_PEER_REQUEST || !vipl_tcp_peer_arrived(conn, hello)) {
        vipl_tcp_refuse(conn, TCP_NOBODY, VIP_SUCCESS);
    }
}

/* Somebody else: it wants whoever waits at the port it came to. */
static void greet_foreign(struct tcp_conn *conn)
{
    struct tcp_hello hello = {.to = conn->local};
    conn->foreign = true;
    vipl_tcp_foreign_facts(&hello.params);
    vipl_log(VIPL_LOG_DEBUG, "a foreign requester, MPA revision %u", (unsigned)conn->start.revision);
    offer(conn, &hello);
}

void vipl_tcp_greet(struct tcp_conn *conn)
{
    struct tcp_hello hello;
    size_t bytes;
    enum vipl_parse parsed = vipl_tcp_start_receive(conn, &conn->start, false);
    if (parsed == VIPL_PARSE_MORE) {
        return;
    }
    const uint8_t *private =
        parsed == VIPL_PARSE_OK ? vipl_tcp_start_private(conn, &conn->start, &bytes) : NULL;
    bool ours = private != NULL && vipl_tcp_hello_is_ours(private, bytes);
    if (private == NULL || conn->start.revision > 2 ||
        (ours &&
         (!vipl_tcp_hello_read(private, bytes, &hello) || hello.segment < 512 || conn->start.markers))) {
        vipl_tcp_conn_close(conn);
        return;
    }
    vipl_tcp_half_open_leave(conn);
    vipl_tcp_conn_deadline(conn, 0);
    conn->crc = conn->start.crc || vipl_tcp_wants_crc(conn);
    if (ours) {
        greet_ours(conn, &hello);
    } else {
        greet_foreign(conn);
    }
}

void vipl_tcp_request_gone(struct tcp_conn *conn)
{
    struct vipl_conn *request = conn->request;
    uint8_t byte;
    struct vipl_iov one = {&byte, 1};
    size_t n = 0;
    if (vipl_socket_receive(conn->fd, &one, 1, &n) == EAGAIN) {
        return;
    }
    tcp_request_of(request)->conn = NULL;
    conn->request = NULL;
    vipl_tcp_conn_close(conn);
    vipl_up_conn_gone(request);
}

/* --- the program's answers --- */

bool vipl_tcp_conn_taken(struct vipl_be_nic *be, struct vipl_conn *request)
{
    (void)be;
    (void)request; /* the requester waits for our reply as it is, and has asked here only */
    return true;
}

/* The connection behind a request, which is answered from here on; NULL: the requester has gone. */
static struct tcp_conn *take(struct vipl_conn *request)
{
    struct tcp_conn *conn = tcp_request_of(request)->conn;
    if (conn != NULL) {
        tcp_request_of(request)->conn = NULL;
        conn->request = NULL;
    }
    return conn;
}

/* The peer is to send the first FPDU, and none that only says so is agreed on: until it comes, posts wait. */
static void open_quiet(struct tcp_conn *conn)
{
    struct tcp_acceptance *acceptance = conn->acceptance;
    conn->acceptance = NULL;
    vipl_tcp_conn_open(conn);
    vipl_tcp_foreign_fresh(conn, true);
    acceptance->opened = vipl_up_connected(conn->vi, &conn->params);
    acceptance->over = true;
}

VIP_RETURN vipl_tcp_conn_accept(struct vipl_be_nic *be, struct vipl_conn *request, struct vipl_vi *vi)
{
    struct tcp_acceptance acceptance = {false, false};
    struct vipl_vi_params params;
    vipl_up_vi_params(vi, &params);
    vipl_mutex_lock(&be->lock);
    struct tcp_conn *conn = take(request);
    if (conn != NULL) {
        vipl_tcp_conn_attach(conn, vi);
        conn->acceptance = &acceptance;
        acceptance.over = !vipl_tcp_answer_yes(conn, &params);
        if (!acceptance.over && conn->foreign && !vipl_tcp_foreign_gets_ready(conn)) {
            open_quiet(conn); /* it may speak when it likes */
        }
        while (!acceptance.over) {
            vipl_tcp_unlock(be);
            if (!vipl_up_await_connected(vi, ACCEPT_LOOK_MS)) {
                return VIP_TIMEOUT;
            }
            vipl_mutex_lock(&be->lock);
        }
        if (!acceptance.opened) { /* else it may be anything by now */
            vipl_tcp_conn_detach(conn);
            vipl_tcp_conn_close(conn);
        }
    }
    vipl_tcp_unlock(be);
    return acceptance.opened ? VIP_SUCCESS : VIP_TIMEOUT;
}

void vipl_tcp_conn_reject(struct vipl_be_nic *be, struct vipl_conn *request, bool answer)
{
    vipl_mutex_lock(&be->lock);
    struct tcp_conn *conn = take(request);
    if (conn != NULL && answer) {
        vipl_tcp_refuse(conn, TCP_REJECTED, VIP_SUCCESS);
    } else if (conn != NULL) {
        vipl_tcp_conn_close(conn);
    }
    vipl_tcp_unlock(be);
}
