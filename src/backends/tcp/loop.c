/* SPDX-License-Identifier: MIT */
/*
 * Progress. One thread at a time runs the loop, and receives first from the connection that received last: a program
 * that polls one VI costs one system call a look. Whoever sleeps, sleeps on the loop's descriptor.
 */
#include "backends/tcp/tcp.h"
#include "base/guard.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    LOOK_AROUND_EVERY = 32,
    MOST_RUNS = 8,
    FIRST_ROOM = 1021, /* descriptors: with the room that libuv takes in addition, a page or two */
    SPARE_ROOM = 64,
    LIBUV_FDS = 8 /* that it opens for its first loop, and aborts if it cannot */
};

/* --- room in the loop --- */

struct room {
    uv_poll_t watch;
};

static void on_room_closed(uv_handle_t *handle)
{
    vipl_free(handle->data);
}

/* The loop has a table as long as the largest descriptor it watches, which libuv takes from the C library's heap: so it
 * grows ahead, by a descriptor of that number which is watched for a moment. */
static void make_room(struct vipl_be_nic *be, int least)
{
    struct room *room = vipl_zalloc(sizeof(*room));
    struct vipl_waker waker;
    int fd = -1;
    if (room == NULL || vipl_waker_open(&waker) != 0) {
        vipl_free(room);
        return;
    }
    if (vipl_fd_duplicate(waker.fd, least, &fd) != 0 || uv_poll_init(&be->loop, &room->watch, fd) != 0) {
        vipl_free(room); /* the system's limit is lower, or near */
    } else {
        room->watch.data = room;
        uv_poll_start(&room->watch, UV_READABLE, NULL);
        uv_close((uv_handle_t *)&room->watch, on_room_closed);
    }
    vipl_fd_close(fd);
    vipl_waker_close(&waker);
}

bool vipl_tcp_has_room(struct vipl_be_nic *be, int fd)
{
    be->highest_fd = fd > be->highest_fd ? fd : be->highest_fd;
    return (unsigned)fd < be->loop.nwatchers || !vipl_guard_is_safe_call();
}

static void keep_room(struct vipl_be_nic *be)
{
    if ((unsigned)be->highest_fd + SPARE_ROOM > be->loop.nwatchers && !vipl_guard_is_safe_call()) {
        make_room(be, 2 * be->highest_fd);
    }
}

/* libuv opens and closes these itself; they are public names of the structure, and the same for the loop's life. */
static void own_descriptors(const uv_loop_t *loop, void (*change)(int fd))
{
    change(uv_backend_fd(loop));
    change(loop->async_io_watcher.fd);
    change(loop->async_wfd);
    change(loop->signal_pipefd[0]);
    change(loop->signal_pipefd[1]);
}

int vipl_tcp_loop_open(struct vipl_be_nic *be)
{
    uint32_t occupied;
    vipl_fd_begin();
    int error = vipl_standard_occupy(&occupied);
    error = error != 0 ? error : vipl_fd_available(LIBUV_FDS);
    error = error != 0 ? error : uv_loop_init(&be->loop);
    if (error == 0) {
        own_descriptors(&be->loop, vipl_fd_own);
    }
    vipl_standard_release(occupied);
    int uncovered = vipl_fork_cover(); /* libuv opens descriptors anew in a forked child */
    vipl_fd_end();
    if (uncovered != 0) {
        vipl_log_os("preparing for forks", uncovered);
    }
    if (error == 0) {
        be->loop.data = be;
        uv_timer_init(&be->loop, &be->accept_timer);
        uv_timer_init(&be->loop, &be->silence_timer);
        be->silence_timer.data = be;
        make_room(be, FIRST_ROOM);
    }
    return error;
}

/* libuv ends the process when its loop has lost its descriptor. */
static bool loop_is_lost(struct vipl_be_nic *be)
{
    if (be->doubt && !be->lost && !vipl_fd_is_poller(uv_backend_fd(&be->loop))) {
        vipl_log(VIPL_LOG_ERROR, "the program closed the library's descriptors: its connections are lost");
        be->lost = true;
        for (struct vipl_list *l = be->conns.next; l != &be->conns; l = l->next) {
            struct tcp_conn *conn = VIPL_CONTAINER(l, struct tcp_conn, link);
            if (conn->state == TCP_OPEN &&
                !conn->broken) { /* what is being set up ends when its time is up */
                vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
            }
        }
    }
    be->doubt = false;
    return be->lost;
}

/* Of a lost loop nothing is closed: nobody knows whose its descriptors are by now. Its handles stay, unused. */
void vipl_tcp_loop_close(struct vipl_be_nic *be)
{
    be->doubt = true;
    if (loop_is_lost(be)) {
        own_descriptors(&be->loop, vipl_fd_disown);
        return;
    }
    uv_close((uv_handle_t *)&be->accept_timer, NULL);
    uv_close((uv_handle_t *)&be->silence_timer, NULL);
    while (uv_run(&be->loop, UV_RUN_NOWAIT) != 0) {
    }
    vipl_fd_begin();
    own_descriptors(&be->loop, vipl_fd_disown);
    uv_loop_close(&be->loop);
    vipl_fd_end();
}

void vipl_tcp_changed(struct vipl_be_nic *be)
{
    vipl_store_relaxed(&be->changed, 1);
    be->sooner = true;
}

/* --- connections that broke --- */

void vipl_tcp_conn_fail(struct tcp_conn *conn, VIP_ERROR_CODE code)
{
    conn->broken = true;
    conn->be->doubt = true;
    vipl_tcp_conn_watch(conn, 0);
    if (conn->acceptance != NULL) { /* who waits there ends it */
        conn->acceptance->over = true;
        vipl_up_connect_failed(conn->vi, VIP_TIMEOUT);
        return;
    }
    if (conn->call != NULL) {
        vipl_tcp_call_lost(conn);
        return;
    }
    if (conn->vi != NULL) {
        vipl_up_fail(conn->vi, code);
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

/* --- posts and answers that wait for somebody to poll --- */

void vipl_tcp_want(struct tcp_conn *conn)
{
    struct vipl_be_nic *be = conn->be;
    vipl_mutex_lock(&be->want_lock);
    if (vipl_list_empty(&conn->want)) {
        vipl_list_append(&be->wanting, &conn->want);
        vipl_store_relaxed(&be->wants, 1);
    }
    vipl_mutex_unlock(&be->want_lock);
    vipl_up_wake(be->core);
}

static struct tcp_conn *take_wanting(struct vipl_be_nic *be)
{
    vipl_mutex_lock(&be->want_lock);
    struct vipl_list *link = vipl_list_take(&be->wanting);
    if (link == NULL) {
        vipl_store_relaxed(&be->wants, 0);
    }
    vipl_mutex_unlock(&be->want_lock);
    return link == NULL ? NULL : VIPL_CONTAINER(link, struct tcp_conn, want);
}

static void look_at_wants(struct vipl_be_nic *be)
{
    struct tcp_conn *conn;
    while (vipl_load_relaxed(&be->wants) != 0 && (conn = take_wanting(be)) != NULL) {
        if ((conn->state == TCP_OPEN || conn->state == TCP_FRESH) && !conn->broken) {
            vipl_tcp_conn_watch(conn, conn->events | UV_WRITABLE);
        }
    }
}

/* --- progress --- */

/* What a callback wants to be watched is told to the kernel by the next run only. */
static void run_loop(struct vipl_be_nic *be)
{
    if (loop_is_lost(be)) {
        vipl_store_relaxed(&be->changed, 0);
        return;
    }
    vipl_tcp_watch_silence(be);
    keep_room(be);
    for (int i = 0; i == 0 || (i < MOST_RUNS && vipl_load_relaxed(&be->changed) != 0); i++) {
        vipl_store_relaxed(&be->changed, 0);
        uv_run(&be->loop, UV_RUN_NOWAIT);
    }
}

void vipl_tcp_unlock(struct vipl_be_nic *be)
{
    bool sooner = be->sooner;
    be->sooner = false;
    vipl_mutex_unlock(&be->lock);
    if (sooner) {
        vipl_up_wake(be->core);
    }
}

/* The connection that received last, first; the others when it is silent, or now and then. */
static void look(struct vipl_be_nic *be)
{
    bool found = false;
    if (be->hot != NULL) {
        struct tcp_conn *hot = be->hot;
        hot->readable = false;
        vipl_tcp_receive(hot);
        found = be->hot == hot && hot->readable;
    }
    look_at_wants(be);
    be->doubt |= be->hot == NULL; /* else the connection itself shows what the program did to it */
    bool alone = be->hot != NULL && be->conn_count == 1;
    bool slept = vipl_load_relaxed(&be->slept) != 0;
    if (vipl_load_relaxed(&be->changed) != 0 || ++be->polls % LOOK_AROUND_EVERY == 0 ||
        (!found && (slept || !alone))) {
        vipl_store_relaxed(&be->slept, 0);
        run_loop(be);
    }
}

void vipl_tcp_poll(struct vipl_be_nic *be)
{
    if (!vipl_mutex_trylock(&be->lock)) {
        return; /* another thread is at it */
    }
    look(be);
    vipl_tcp_unlock(be);
}

void vipl_tcp_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    vipl_mutex_lock(&be->lock);
    look_at_wants(be);
    vipl_tcp_watch_silence(be);
    be->doubt |= be->hot == NULL; /* as in look() */
    if (vipl_load_relaxed(&be->changed) != 0) {
        run_loop(be);
    }
    bool lost = loop_is_lost(be);
    uv_update_time(&be->loop);
    hint->fd = lost ? -1 : uv_backend_fd(&be->loop);
    hint->ms = !lost && uv_loop_alive(&be->loop) ? uv_backend_timeout(&be->loop) : -1;
    bool changed = vipl_load_relaxed(&be->changed) != 0;
    vipl_mutex_unlock(&be->lock);
    if (changed) {
        hint->ms = 0;
    }
}

void vipl_tcp_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    (void)hint;
    vipl_store_relaxed(&be->slept, 1); /* something may have happened anywhere */
}
