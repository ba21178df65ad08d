/* SPDX-License-Identifier: MIT */
/* A connection, from its socket to the peer's end of it. */
#include "backends/tcp/conn.h"

#include <errno.h>

#include "backends/tcp/loop.h"
#include "backends/tcp/output.h"
#include "base/lock_rank.h"

/* How long a closed stream waits for the peer's end; repeated while the kernel
 * still delivers data. */
enum { LINGER_MS = 2000 };

static void free_conn(struct tcp_ended *ended)
{
    struct tcp_conn *conn = VIPL_CONTAINER(ended, struct tcp_conn, ended);
    vipl_free(conn->rx.buffer);
    vipl_free(conn->tx.snapshot);
    vipl_free(conn->tx.output);
    vipl_fifo_free(&conn->tx.pending);
    vipl_fifo_free(&conn->tx.responses);
    vipl_free(conn->marking);
    vipl_free(conn);
}

static void on_ready(struct tcp_watch *watch, int events)
{
    struct tcp_conn *conn = VIPL_CONTAINER(watch, struct tcp_conn, watch);
    conn->handler->ready(conn, events);
}

static void on_deadline(struct tcp_timer *timer)
{
    struct tcp_conn *conn = VIPL_CONTAINER(timer, struct tcp_conn, timer);
    if (conn->handler->expired != NULL) {
        conn->handler->expired(conn);
    }
}

struct tcp_conn *vipl_tcp_conn_new(struct tcp_nic *nic, int fd, enum tcp_state state,
                                   const struct tcp_handler *handler)
{
    struct tcp_conn *conn = vipl_zalloc(sizeof(*conn));
    if (conn == NULL) {
        vipl_fd_close(fd);
        return NULL;
    }
    vipl_tcp_watch_init(&conn->watch, fd, on_ready);
    vipl_tcp_timer_init(&conn->timer, on_deadline);
    conn->nic = nic;
    conn->fd = fd;
    conn->state = state;
    conn->handler = handler;
    conn->segment = TCP_SEGMENT;
    conn->rx.send_msn = conn->rx.read_msn = 1;
    conn->tx.send_msn = conn->tx.read_msn = 1;
    conn->tx.reads = TCP_MAX_READS;
    VIPL_FIFO_INIT(&conn->tx.pending, conn->tx.inline_pending);
    VIPL_FIFO_INIT(&conn->tx.responses, conn->tx.inline_responses);
    vipl_biased_init(&conn->tx.lock, VIPL_RANK_BACKEND_TX);
    vipl_biased_allow(&conn->tx.lock);
    vipl_biased_allow(&nic->lock);
    vipl_list_init(&conn->half_open_link);
    vipl_list_init(&conn->tx_pending);
    vipl_list_append(&nic->conns, &conn->link);
    nic->conn_count++;
    return conn;
}

/* If the system refuses for lack of memory, the loop tries again. */
static void watch_socket(struct tcp_conn *conn, int events)
{
    conn->nic->unwatched |= vipl_tcp_watch_for(&conn->nic->loop, &conn->watch, events) != 0;
}

void vipl_tcp_watch_again(struct tcp_nic *nic)
{
    nic->unwatched = false;
    for (struct vipl_list *l = nic->conns.next; l != &nic->conns; l = l->next) {
        struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
        if (conn != nic->paused) {
            watch_socket(conn, conn->events);
        }
    }
}

void vipl_tcp_conn_watch(struct tcp_conn *conn, int events)
{
    if (conn->events == events) {
        return;
    }
    conn->events = events;
    conn->nic->paused = conn->nic->paused == conn ? NULL : conn->nic->paused;
    watch_socket(conn, events);
    vipl_tcp_changed(conn->nic);
}

void vipl_tcp_conn_pause_watch(struct tcp_conn *conn)
{
    conn->nic->paused = conn;
    watch_socket(conn, 0);
}

void vipl_tcp_resume_watch(struct tcp_nic *nic)
{
    struct tcp_conn *conn = nic->paused;
    if (conn != NULL) {
        nic->paused = NULL;
        watch_socket(conn, conn->events);
        vipl_tcp_changed(nic);
    }
}

void vipl_tcp_conn_deadline(struct tcp_conn *conn, uint32_t ms)
{
    vipl_tcp_timer_stop(&conn->timer);
    if (ms > 0) {
        vipl_tcp_timer_start(&conn->nic->loop, &conn->timer, ms);
        conn->nic->wake_sleeper = true;
    }
}

void vipl_tcp_conn_close(struct tcp_conn *conn)
{
    struct tcp_nic *nic = conn->nic;
    if (conn->handler->closing != NULL) {
        conn->handler->closing(conn);
    }
    vipl_mutex_lock(&nic->tx_pending_lock);
    vipl_list_remove(&conn->tx_pending);
    vipl_mutex_unlock(&nic->tx_pending_lock);
    vipl_list_remove(&conn->link);
    nic->conn_count--;
    nic->hot = nic->hot == conn ? NULL : nic->hot;
    nic->paused = nic->paused == conn ? NULL : nic->paused;
    vipl_tcp_timer_stop(&conn->timer);
    watch_socket(conn, 0);
    vipl_fd_close(conn->fd);
    vipl_tcp_free_later(&nic->loop, &conn->ended, free_conn);
    vipl_tcp_changed(nic);
}

/* --- the end of the stream --- */

/* Drops what has come, in a limited number of system calls. Returns true if the peer has ended the
 * stream, or the stream is broken. */
static bool drain(struct tcp_conn *conn)
{
    struct vipl_iov all = {conn->nic->scratch, TCP_SCRATCH};
    size_t n = 1;
    int error = 0;
    for (int i = 0; i < TCP_POLL_BUDGET && error == 0 && n > 0; i++) {
        error = vipl_socket_receive(conn->fd, &all, 1, &n);
    }
    return error == 0 ? n == 0 : error != EAGAIN;
}

static void ending_ready(struct tcp_conn *conn, int events)
{
    (void)events;
    if (drain(conn)) {
        vipl_tcp_conn_close(conn);
    }
}

/* Whether the kernel still delivers what was sent, and the peer's host may be alive. Closing a
 * socket to which the peer still sends discards what is undelivered, which may be the reason
 * for the end. */
static bool is_delivering(struct tcp_conn *conn)
{
    struct vipl_socket_signs signs;
    return ++conn->silent_checks * LINGER_MS < conn->nic->settings.tuning.timeout_ms &&
           vipl_socket_signs_of_life(conn->fd, &signs) && signs.queued;
}

static void ending_expired(struct tcp_conn *conn)
{
    if (is_delivering(conn)) {
        vipl_tcp_conn_deadline(conn, LINGER_MS);
    } else {
        vipl_tcp_conn_close(conn);
    }
}

static const struct tcp_handler ending = {.ready = ending_ready, .expired = ending_expired};

void vipl_tcp_conn_end(struct tcp_conn *conn)
{
    struct tcp_nic *nic = conn->nic;
    nic->hot = nic->hot == conn ? NULL : nic->hot;
    conn->state = TCP_ENDING;
    conn->handler = &ending;
    vipl_biased_lock(&conn->tx.lock);
    vipl_tcp_output_flush(conn); /* the sends of an unreliable VI may still be in the buffer */
    vipl_biased_unlock(&conn->tx.lock);
    vipl_socket_finish(conn->fd);
    if (drain(conn)) {
        vipl_tcp_conn_close(conn);
        return;
    }
    conn->silent_checks = 0;
    vipl_tcp_conn_watch(conn, TCP_READABLE);
    vipl_tcp_conn_deadline(conn, LINGER_MS);
}

/* --- the VI --- */

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

void vipl_tcp_conn_detach(struct tcp_conn *conn)
{
    struct vipl_vi *vi = conn->vi;
    conn->vi = NULL;
    if (vi != NULL) {
        set_conn(vi, NULL);
    }
}

void vipl_tcp_conn_fail(struct tcp_conn *conn, VIP_ERROR_CODE code)
{
    conn->broken = true;
    conn->nic->check_poller = true;
    vipl_tcp_conn_watch(conn, 0);
    if (conn->handler->failed != NULL) {
        conn->handler->failed(conn, code);
    }
}

bool vipl_tcp_still_works(struct tcp_conn *conn)
{
    bool failed = vipl_up_has_failed(conn->vi);
    if (failed) {
        conn->broken = true;
        vipl_tcp_conn_watch(conn, 0);
    }
    return !failed;
}
