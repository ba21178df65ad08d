/* SPDX-License-Identifier: MIT */
/*
 * Progress. One thread at a time runs the loop. It receives first from the connection that received
 * last, so that a program that polls one VI makes one system call per poll. A sleeping thread waits
 * for the loop's descriptor.
 */
#include "backends/tcp/loop.h"

#include "backends/tcp/listen.h"
#include "backends/tcp/output.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    /* Polls between two runs of the loop, even if the connection that received last has received
     * again. Their number is adjusted so that they take about SPACING_NS. */
    MIN_SPACING = 32,
    MAX_SPACING = 1024,
    SPACING_NS = 100000,
    MAX_RUNS = 8,
    /* checks for acknowledgments, in the time after which a connection is lost */
    KEEPALIVE_CHECKS = 10,
    /* checks without an acknowledgment after which the peer's host is lost */
    MAX_SILENT_CHECKS = 9,
    RETRY_MS = 10 /* pause before a socket that could not be watched is tried again */
};

static void on_keepalive(struct tcp_timer *timer);

int vipl_tcp_loop_open(struct tcp_nic *nic)
{
    vipl_tcp_timer_init(&nic->accept_timer, vipl_tcp_accept_again);
    vipl_tcp_timer_init(&nic->keepalive_timer, on_keepalive);
    return vipl_tcp_loop_begin(&nic->loop);
}

/* Whether the connection carries messages of a VI. One that is being set up ends at
 * its own deadline. */
static bool is_open(const struct tcp_conn *conn)
{
    return (conn->state == TCP_OPEN || conn->state == TCP_AWAIT_FIRST_FPDU) && !conn->broken;
}

/* Whether the program has closed the loop's descriptor, whose number may be the program's
 * own by now. */
static bool loop_is_lost(struct tcp_nic *nic)
{
    if (nic->check_poller && !nic->loop.lost && !vipl_fd_is_poller(nic->loop.set.fd)) {
        vipl_log(VIPL_LOG_ERROR, "the program closed the library's descriptors: its connections are lost");
        nic->loop.lost = true;
        for (struct vipl_list *l = nic->conns.next; l != &nic->conns; l = l->next) {
            struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
            if (is_open(conn)) {
                vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
            }
        }
    }
    nic->check_poller = false;
    return nic->loop.lost;
}

void vipl_tcp_loop_close(struct tcp_nic *nic)
{
    nic->check_poller = true;
    (void)loop_is_lost(nic);
    vipl_tcp_timer_stop(&nic->accept_timer);
    vipl_tcp_timer_stop(&nic->keepalive_timer);
    vipl_tcp_loop_end(&nic->loop);
}

void vipl_tcp_changed(struct tcp_nic *nic)
{
    vipl_store_relaxed(&nic->changed, 1);
    nic->wake_sleeper = true;
}

/* --- keepalive --- */

/* Whether the peer's host is gone: for the configured time it has acknowledged neither data nor
 * keepalive probes. *owes: an acknowledgment is due. */
static bool is_lost(struct tcp_conn *conn, uint32_t period, bool *owes)
{
    const struct vipl_socket_tuning *tuning = &conn->nic->settings.tuning;
    struct vipl_socket_signs signs;
    /* several probes after the first one */
    uint32_t probed_ms = tuning->idle_ms + tuning->timeout_ms / 2;
    if (!vipl_socket_signs_of_life(conn->fd, &signs)) {
        return false;
    }
    *owes |= signs.queued || signs.probed;
    conn->silent_checks = signs.unanswered && signs.silent_ms >= period ? conn->silent_checks + 1 : 0;
    return conn->silent_checks >= MAX_SILENT_CHECKS ||
           (signs.probed && signs.silent_ms >= tuning->timeout_ms && signs.silent_ms >= probed_ms);
}

static uint32_t keepalive_period(const struct tcp_nic *nic)
{
    return nic->settings.tuning.timeout_ms / KEEPALIVE_CHECKS;
}

/* Checks all connections. The timer runs again while an acknowledgment is due. */
static void on_keepalive(struct tcp_timer *timer)
{
    struct tcp_nic *nic = VIPL_CONTAINER(timer, struct tcp_nic, keepalive_timer);
    uint32_t period = keepalive_period(nic);
    bool owing = false;
    /* cleared first: what is sent from here on starts the timer again */
    vipl_store_relaxed(&nic->tx_active, 0);
    for (struct vipl_list *l = nic->conns.next; l != &nic->conns; l = l->next) {
        struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
        if (is_open(conn) && is_lost(conn, period, &owing)) {
            vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
        }
    }
    if (owing) {
        vipl_tcp_timer_start(&nic->loop, timer, period);
    }
}

static void watch_keepalive(struct tcp_nic *nic)
{
    if (vipl_load_relaxed(&nic->tx_active) != 0 && !vipl_tcp_timer_runs(&nic->keepalive_timer)) {
        vipl_tcp_timer_start(&nic->loop, &nic->keepalive_timer, keepalive_period(nic));
    }
}

/* --- what waits to be sent --- */

static void put_tx_pending(struct tcp_conn *conn)
{
    struct tcp_nic *nic = conn->nic;
    vipl_mutex_lock(&nic->tx_pending_lock);
    if (vipl_list_empty(&conn->tx_pending)) {
        vipl_list_append(&nic->tx_pending, &conn->tx_pending);
        vipl_store_relaxed(&nic->has_tx_pending, 1);
    }
    vipl_mutex_unlock(&nic->tx_pending_lock);
}

void vipl_tcp_set_tx_pending(struct tcp_conn *conn)
{
    put_tx_pending(conn);
    vipl_up_wake(conn->nic->core);
}

bool vipl_tcp_request_flush(struct tcp_conn *conn)
{
    put_tx_pending(conn);
    return vipl_up_request_flush(conn->nic->core);
}

static struct tcp_conn *take_tx_pending(struct tcp_nic *nic)
{
    vipl_mutex_lock(&nic->tx_pending_lock);
    struct vipl_list *link = vipl_list_take(&nic->tx_pending);
    if (link == NULL) {
        vipl_store_relaxed(&nic->has_tx_pending, 0);
    }
    vipl_mutex_unlock(&nic->tx_pending_lock);
    return link == NULL ? NULL : VIPL_CONTAINER(link, struct tcp_conn, tx_pending);
}

/* Part of each poll, which begins a new poll epoch: messages posted after it are not coalesced
 * with those before. */
static void flush_tx_pending(struct tcp_nic *nic)
{
    struct tcp_conn *conn;
    vipl_store_relaxed(&nic->poll_epoch, vipl_load_relaxed(&nic->poll_epoch) + 1);
    while (vipl_load_relaxed(&nic->has_tx_pending) != 0 && (conn = take_tx_pending(nic)) != NULL) {
        if (is_open(conn) && (vipl_tcp_output_poll(conn) || vipl_tcp_is_waiting(conn))) {
            vipl_tcp_conn_watch(conn, conn->events | TCP_WRITABLE);
        }
    }
}

void vipl_tcp_flush_deferred(struct vipl_be_nic *be)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    if (vipl_load_relaxed(&nic->has_tx_pending) != 0) {
        vipl_biased_lock(&nic->lock);
        flush_tx_pending(nic);
        vipl_tcp_unlock(nic);
    }
}

uint32_t vipl_tcp_poll_epoch(struct vipl_be_nic *be)
{
    return vipl_load_relaxed(&tcp_nic_of(be)->poll_epoch);
}

/* --- progress --- */

static void run_loop(struct tcp_nic *nic)
{
    if (loop_is_lost(nic)) {
        vipl_store_relaxed(&nic->changed, 0);
        return;
    }
    watch_keepalive(nic);
    if (nic->unwatched) {
        vipl_tcp_watch_again(nic);
    }
    for (int i = 0; i == 0 || (i < MAX_RUNS && vipl_load_relaxed(&nic->changed) != 0); i++) {
        vipl_store_relaxed(&nic->changed, 0);
        vipl_tcp_loop_turn(&nic->loop);
    }
}

void vipl_tcp_unlock(struct tcp_nic *nic)
{
    bool sooner = nic->wake_sleeper;
    nic->wake_sleeper = false;
    vipl_biased_unlock(&nic->lock);
    if (sooner) {
        vipl_up_wake(nic->core);
    }
}

/* Receives from the connection that received last. Returns true if something came. */
static bool receive_hot(struct tcp_nic *nic)
{
    struct tcp_conn *hot = nic->hot;
    hot->readable = false;
    hot->handler->ready(hot, TCP_READABLE);
    return nic->hot == hot && hot->readable;
}

static bool is_run_due(const struct tcp_nic *nic, uint32_t epoch)
{
    return epoch - nic->ran_epoch >= nic->spacing;
}

static void adjust_spacing(struct tcp_nic *nic)
{
    uint64_t now = vipl_now_ns();
    uint64_t took = now - nic->spaced_at;
    uint32_t spacing = took < SPACING_NS       ? nic->spacing * 2
                       : took > 2 * SPACING_NS ? nic->spacing / 2
                                               : nic->spacing;
    nic->spacing = spacing < MIN_SPACING ? MIN_SPACING : spacing > MAX_SPACING ? MAX_SPACING : spacing;
    nic->spaced_at = now;
}

/* Whether the kernel need not watch the only connection: a program has polled it for a while, and
 * no thread sleeps. */
static bool may_pause_watch(const struct tcp_nic *nic, const struct tcp_conn *conn)
{
    return nic->conn_count == 1 && conn != NULL && nic->paused == NULL && conn->state == TCP_OPEN &&
           !conn->broken && conn->events == TCP_READABLE && vipl_load_relaxed(&nic->sleeping) == 0;
}

/* Whether the other connections are left alone in this poll: the one that received last has
 * received several messages in a row, and the loop has run not long ago. */
static bool may_leave_others(const struct tcp_nic *nic, uint32_t epoch)
{
    return nic->hot != NULL && (nic->conn_count == 1 || epoch - nic->ran_epoch <= nic->hot_streak);
}

/* Receives from the connection that received last. Runs the loop for the other ones if nothing
 * came and it is their turn, and at least every `spacing` polls. */
static void make_progress(struct tcp_nic *nic)
{
    flush_tx_pending(nic);
    bool found = nic->hot != NULL && receive_hot(nic);
    /* otherwise receiving shows whether the program has closed descriptors */
    nic->check_poller |= nic->hot == NULL || !nic->hot_has_received;
    bool alone = nic->hot != NULL && nic->conn_count == 1;
    bool slept = vipl_load_relaxed(&nic->slept) != 0;
    bool due = is_run_due(nic, vipl_load_relaxed(&nic->poll_epoch));
    if (due) {
        adjust_spacing(nic);
        if (!slept && may_pause_watch(nic, nic->hot)) {
            vipl_tcp_conn_pause_watch(nic->hot);
        }
    }
    if (!alone) {
        vipl_tcp_resume_watch(nic);
    } else if (found) { /* other events there may be end the next sleep at once */
        vipl_store_relaxed(&nic->slept, 0);
    }
    uint32_t epoch = vipl_load_relaxed(&nic->poll_epoch);
    bool others = slept || !may_leave_others(nic, epoch);
    if (vipl_load_relaxed(&nic->changed) != 0 || due || (!found && others)) {
        vipl_store_relaxed(&nic->slept, 0);
        nic->ran_epoch = epoch;
        run_loop(nic);
    }
}

void vipl_tcp_poll(struct vipl_be_nic *be)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    if (!vipl_biased_trylock(&nic->lock)) {
        return; /* another thread does it */
    }
    make_progress(nic);
    vipl_tcp_unlock(nic);
}

/* Whether a poll has to do no more than receive from the connection that received last. */
static bool is_only_to_receive(const struct tcp_nic *nic)
{
    uint32_t epoch = vipl_load_relaxed(&nic->poll_epoch) + 1;
    return may_leave_others(nic, epoch) && vipl_load_relaxed(&nic->has_tx_pending) == 0 &&
           vipl_load_relaxed(&nic->changed) == 0 && vipl_load_relaxed(&nic->slept) == 0 &&
           !is_run_due(nic, epoch);
}

bool vipl_tcp_poll_fast(struct vipl_poll_filter *filter)
{
    struct tcp_nic *nic = VIPL_CONTAINER(filter, struct tcp_nic, poll_filter);
    if (!vipl_biased_trylock_own(&nic->lock)) {
        return true; /* another thread does it */
    }
    bool only = is_only_to_receive(nic);
    if (only) {
        vipl_store_relaxed(&nic->poll_epoch, vipl_load_relaxed(&nic->poll_epoch) + 1);
        if (!vipl_tcp_receive_fast(nic->hot)) {
            int cancel = vipl_cancel_off();
            receive_hot(nic);
            vipl_cancel_restore(cancel);
        }
        only = vipl_load_relaxed(&nic->changed) == 0;
    }
    vipl_tcp_unlock(nic);
    return only;
}

void vipl_tcp_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    vipl_fetch_add(&nic->sleeping, 1);
    vipl_tcp_resume_watch(nic);
    flush_tx_pending(nic);
    watch_keepalive(nic);
    nic->check_poller |= nic->hot == NULL || !nic->hot_has_received; /* as in make_progress() */
    if (vipl_load_relaxed(&nic->changed) != 0) {
        run_loop(nic);
    }
    bool lost = loop_is_lost(nic);
    hint->fd = lost ? -1 : nic->loop.set.fd;
    hint->ms = lost ? -1 : vipl_tcp_loop_ms(&nic->loop);
    if (nic->unwatched && (hint->ms < 0 || hint->ms > RETRY_MS)) {
        hint->ms = RETRY_MS;
    }
    if (vipl_load_relaxed(&nic->changed) != 0) {
        hint->ms = 0;
    }
    nic->wake_sleeper = false; /* the thread that is about to sleep has the new hint */
    vipl_biased_unlock(&nic->lock);
}
