/* SPDX-License-Identifier: MIT */
/* A connection's life: from a socket, through a VI, to the peer's end of it. */
#include <errno.h>

#include "backends/tcp/tcp.h"
#include "base/lock_rank.h"
#include "os/os_atomic.h"

enum { LOOKS = 10, LOOKS_IN_VAIN = 9 }; /* for signs of life, in the time after which a connection is lost */

static void on_closed(uv_handle_t *handle)
{
    struct tcp_conn *conn = handle->data;
    if (--conn->handles == 0) {
        vipl_free(conn->rx.buffer);
        vipl_tcp_foreign_end(conn);
        vipl_free(conn);
    }
}

static void on_ready(uv_poll_t *watch, int status, int events)
{
    struct tcp_conn *conn = watch->data;
    if (status < 0) { /* libuv watches no more, but the error comes after what is there to be read */
        int watched = conn->events;
        conn->events = 0;
        vipl_tcp_conn_watch(conn, watched);
    }
    vipl_tcp_conn_ready(conn, status < 0 ? UV_READABLE | UV_WRITABLE : events);
}

/* Closed while the peer still sends, the socket would take back what it has not delivered: the reason, perhaps. So it stays
 * for as long as the peer's host is not given up. */
static bool is_delivering(struct tcp_conn *conn)
{
    struct vipl_socket_signs signs;
    return ++conn->looks * TCP_LINGER_MS < conn->be->settings.tuning.timeout_ms &&
           vipl_socket_signs_of_life(conn->fd, &signs) && signs.queued;
}

static void on_deadline(uv_timer_t *timer)
{
    struct tcp_conn *conn = timer->data;
    switch (conn->state) {
    case TCP_DIALING:
    case TCP_ASKING:
        vipl_tcp_call_lost(conn);
        break;
    case TCP_GREETING:
        vipl_tcp_conn_close(conn);
        break;
    case TCP_ENDING:
        if (is_delivering(conn)) {
            vipl_tcp_conn_deadline(conn, TCP_LINGER_MS);
        } else {
            vipl_tcp_conn_close(conn);
        }
        break;
    case TCP_OPENING:
        vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
        break;
    case TCP_FRESH:
        vipl_tcp_foreign_nudge(conn);
        break;
    case TCP_OFFERED:
    case TCP_OPEN:
        break;
    }
}

struct tcp_conn *vipl_tcp_conn_new(struct vipl_be_nic *be, int fd, enum tcp_state state)
{
    struct tcp_conn *conn = vipl_tcp_has_room(be, fd) ? vipl_zalloc(sizeof(*conn)) : NULL;
    if (conn == NULL || uv_poll_init(&be->loop, &conn->watch, fd) != 0) {
        vipl_free(conn);
        vipl_fd_close(fd);
        return NULL;
    }
    uv_timer_init(&be->loop, &conn->timer);
    conn->watch.data = conn->timer.data = conn;
    conn->handles = 2;
    conn->be = be;
    conn->fd = fd;
    conn->state = state;
    conn->segment = TCP_SEGMENT;
    conn->rx.send_msn = conn->rx.read_msn = 1;
    conn->tx.send_msn = conn->tx.read_msn = 1;
    conn->tx.reads = TCP_READS;
    vipl_mutex_init(&conn->tx.lock, VIPL_RANK_BACKEND_TX);
    vipl_list_init(&conn->phase);
    vipl_list_init(&conn->want);
    vipl_list_append(&be->conns, &conn->link);
    be->conn_count++;
    vipl_socket_tune(fd, &be->settings.tuning);
    return conn;
}

void vipl_tcp_conn_watch(struct tcp_conn *conn, int events)
{
    if (conn->events == events) {
        return;
    }
    conn->events = events;
    if (events == 0) {
        uv_poll_stop(&conn->watch);
    } else {
        uv_poll_start(&conn->watch, events, on_ready);
    }
    vipl_tcp_changed(conn->be);
}

void vipl_tcp_conn_deadline(struct tcp_conn *conn, uint32_t ms)
{
    uv_timer_stop(&conn->timer);
    if (ms > 0) {
        uv_update_time(&conn->be->loop);
        uv_timer_start(&conn->timer, on_deadline, ms, 0);
    }
    vipl_tcp_changed(conn->be);
}

void vipl_tcp_conn_close(struct tcp_conn *conn)
{
    struct vipl_be_nic *be = conn->be;
    vipl_tcp_half_open_leave(conn);
    vipl_mutex_lock(&be->want_lock);
    vipl_list_remove(&conn->want);
    vipl_mutex_unlock(&be->want_lock);
    vipl_list_remove(&conn->link);
    be->conn_count--;
    be->hot = be->hot == conn ? NULL : be->hot;
    uv_close((uv_handle_t *)&conn->timer, on_closed);
    uv_close((uv_handle_t *)&conn->watch, on_closed);
    vipl_fd_close(conn->fd);
    vipl_tcp_changed(be);
}

/* Throws away what has come. True: the peer has ended the stream, or the stream is broken. */
static bool drain(struct tcp_conn *conn)
{
    struct vipl_iov all = {conn->be->scratch, TCP_SCRATCH};
    size_t n = 0;
    int error;
    do {
        error = vipl_socket_receive(conn->fd, &all, 1, &n);
    } while (error == 0 && n > 0);
    return error != EAGAIN;
}

void vipl_tcp_conn_end(struct tcp_conn *conn)
{
    struct vipl_be_nic *be = conn->be;
    be->hot = be->hot == conn ? NULL : be->hot;
    conn->state = TCP_ENDING;
    vipl_socket_finish(conn->fd);
    if (drain(conn)) {
        vipl_tcp_conn_close(conn);
        return;
    }
    conn->looks = 0;
    vipl_tcp_conn_watch(conn, UV_READABLE);
    vipl_tcp_conn_deadline(conn, TCP_LINGER_MS);
}

static void set_conn(struct vipl_vi *vi, struct tcp_conn *conn)
{
    vipl_up_send_lock(vi);
    vipl_up_recv_lock(vi);
    tcp_vi_of(vi)->conn = conn;
    vipl_up_recv_unlock(vi);
    vipl_up_send_unlock(vi);
}

void vipl_tcp_conn_attach(struct tcp_conn *conn, struct vipl_vi *vi)
{
    struct vipl_vi_params params;
    vipl_up_vi_params(vi, &params);
    conn->vi = vi;
    conn->unreliable = params.reliability == VIP_SERVICE_UNRELIABLE;
    conn->confirms_sends = !conn->foreign && params.reliability == VIP_SERVICE_RELIABLE_RECEPTION;
    conn->confirms_writes = !conn->foreign && !conn->unreliable;
    set_conn(vi, conn);
}

struct vipl_vi *vipl_tcp_conn_detach(struct tcp_conn *conn)
{
    struct vipl_vi *vi = conn->vi;
    conn->vi = NULL;
    if (vi != NULL) {
        set_conn(vi, NULL);
    }
    return vi;
}

/* The peer's host has gone: for the configured time it has acknowledged nothing, or answered no question. *owes: it still
 * has something to answer. */
static bool is_lost(struct tcp_conn *conn, uint32_t period, bool *owes)
{
    const struct vipl_socket_tuning *tuning = &conn->be->settings.tuning;
    struct vipl_socket_signs signs;
    uint32_t asked_ms = tuning->idle_ms + tuning->timeout_ms / 2; /* several questions after they began */
    if (!vipl_socket_signs_of_life(conn->fd, &signs)) {
        return false;
    }
    *owes |= signs.queued || signs.probed;
    conn->looks = signs.unanswered && signs.silent_ms >= period ? conn->looks + 1 : 0;
    return conn->looks >= LOOKS_IN_VAIN ||
           (signs.probed && signs.silent_ms >= tuning->timeout_ms && signs.silent_ms >= asked_ms);
}

/* Looks at all connections, until none owes us an answer. */
static void on_silence(uv_timer_t *timer)
{
    struct vipl_be_nic *be = timer->data;
    uint32_t period = be->settings.tuning.timeout_ms / LOOKS;
    bool owing = false;
    vipl_store_relaxed(&be->spoke, 0); /* first: what is sent from here on starts the timer again */
    for (struct vipl_list *l = be->conns.next; l != &be->conns; l = l->next) {
        struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
        if (conn->state != TCP_OPEN || conn->broken) {
            continue;
        }
        if (is_lost(conn, period, &owing)) {
            vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
        }
    }
    if (!owing) {
        uv_timer_stop(timer);
    }
}

void vipl_tcp_watch_silence(struct vipl_be_nic *be)
{
    if (vipl_load_relaxed(&be->spoke) != 0 && !uv_is_active((uv_handle_t *)&be->silence_timer)) {
        uint64_t period = be->settings.tuning.timeout_ms / LOOKS;
        uv_update_time(&be->loop);
        uv_timer_start(&be->silence_timer, on_silence, period, period);
    }
}

/* Remote access is to work with nobody calling in. */
void vipl_tcp_conn_open(struct tcp_conn *conn)
{
    struct vipl_vi_params own;
    conn->state = TCP_OPEN;
    vipl_tcp_conn_deadline(conn, 0);
    vipl_up_vi_params(conn->vi, &own);
    if (own.rdma_write || own.rdma_read) {
        (void)vipl_up_need_service(conn->be->core);
    }
}

void vipl_tcp_conn_ready(struct tcp_conn *conn, int events)
{
    switch (conn->state) {
    case TCP_DIALING:
        vipl_tcp_dialed(conn);
        break;
    case TCP_ASKING:
        vipl_tcp_replied(conn);
        break;
    case TCP_GREETING:
        vipl_tcp_greet(conn);
        break;
    case TCP_OFFERED:
        vipl_tcp_request_gone(conn); /* it is not to speak before our answer */
        break;
    case TCP_OPENING:
    case TCP_FRESH:
    case TCP_OPEN:
        if ((events & UV_WRITABLE) != 0) {
            vipl_tcp_conn_watch(conn, UV_READABLE);
            vipl_tcp_resume(conn);
        }
        if (!conn->broken && (events & UV_READABLE) != 0) {
            vipl_tcp_receive(conn);
        }
        break;
    case TCP_ENDING:
        if (drain(conn)) {
            vipl_tcp_conn_close(conn);
        }
        break;
    }
}

void vipl_tcp_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_mutex_lock(&be->lock);
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    if (conn != NULL) {
        vipl_tcp_conn_detach(conn);
        vipl_tcp_conn_end(conn);
    }
    vipl_tcp_unlock(be);
}

void vipl_tcp_revoke(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi; /* nobody fetches from our buffers; what is received finds the queues empty */
}
