/* SPDX-License-Identifier: MIT */
#include "sockets/conn.h"

#include <errno.h>
#include <poll.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "base/pool.h"
#include "sockets/mark.h"
#include "sockets/responder.h"

static void make_conn(void *object)
{
    struct sock_conn *conn = object;
    conn->file.kind = &sock_conn_kind;
    vipl_mutex_init(&conn->lock, VIPL_RANK_SOCK_CONN);
    vipl_list_init(&conn->hooks);
}

static struct vipl_pool conns = VIPL_POOL_INIT(conns, struct sock_conn, link, make_conn);

struct sock_conn *sock_conn_new(enum sock_state state, int kernel, bool nonblocking)
{
    struct sock_conn *conn = vipl_pool_get(&conns);
    if (conn == NULL) {
        return NULL;
    }
    vipl_list_init(&conn->link);
    vipl_mutex_lock(&conn->lock);
    conn->stream = NULL;
    conn->mark = NULL;
    conn->responder = NULL;
    conn->device_name = sock_device_name();
    conn->is_remote = conn->is_judged = conn->is_asking = false;
    conn->nonblocking = nonblocking;
    conn->receive_ms = conn->send_ms = conn->shut = conn->corked = conn->resets = conn->owes = conn->told = 0;
    conn->kernel = kernel;
    conn->error = 0;
    conn->is_client = conn->is_own = conn->is_held = conn->joins = conn->strips_message = false;
    conn->strips = conn->peer_commit = 0;
    conn->since = vipl_now_ns();
    conn->patience = 0;
    vipl_store_release(&conn->state, state);
    vipl_mutex_unlock(&conn->lock);
    vipl_store_release(&conn->file.refs, 1); /* pairs with sock_file_of() */
    return conn;
}

void sock_conn_free(struct sock_conn *conn)
{
    if (conn->stream != NULL) {
        if (vipl_load_relaxed(&conn->resets) != 0) {
            vipl_stream_abort(conn->stream);
        }
        vipl_stream_close(conn->stream);
    }
    if (conn->mark != NULL) {
        sock_mark_free(conn->mark);
    }
    if (conn->responder != NULL) {
        sock_responder_free(conn->responder);
    }
    vipl_pool_put(&conns, conn);
}

void sock_conn_change_locked(struct sock_conn *conn, enum sock_state state)
{
    vipl_store_release(&conn->state, state);
    for (struct vipl_list *l = conn->hooks.next; l != &conn->hooks; l = l->next) {
        struct sock_hook *hook = VIPL_CONTAINER(l, struct sock_hook, link);
        hook->changed(hook);
    }
}

void sock_conn_touch(struct sock_conn *conn)
{
    vipl_mutex_lock(&conn->lock);
    sock_conn_change_locked(conn, sock_conn_state(conn));
    vipl_mutex_unlock(&conn->lock);
}

void sock_conn_hook(struct sock_conn *conn, struct sock_hook *hook)
{
    vipl_mutex_lock(&conn->lock);
    vipl_list_append(&conn->hooks, &hook->link);
    vipl_mutex_unlock(&conn->lock);
}

void sock_conn_unhook(struct sock_conn *conn, struct sock_hook *hook)
{
    vipl_mutex_lock(&conn->lock);
    vipl_list_remove(&hook->link);
    vipl_mutex_unlock(&conn->lock);
}

/* --- what a connection that is not the kernel's says to poll() and to SO_ERROR --- */

short sock_conn_ready(struct sock_conn *conn)
{
    enum sock_state state = sock_conn_state(conn);
    uint32_t shut = vipl_load_relaxed(&conn->shut);
    short ready = 0;
    if (state == SOCK_BROKEN && conn->error == 0) {
        bool is_shut = (shut & SOCK_SHUT_WRITE) != 0;
        return (short)(POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | (is_shut ? POLLHUP : 0));
    }
    if (state != SOCK_MOVED) {
        bool is_told = vipl_load_relaxed(&conn->told) != 0;
        return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLHUP | (is_told ? 0 : POLLERR);
    }
    unsigned events = vipl_stream_events(conn->stream);
    if ((events & (VIPL_STREAM_READABLE | VIPL_STREAM_ENDED)) != 0 || (shut & SOCK_SHUT_READ) != 0) {
        ready |= POLLIN | POLLRDNORM;
    }
    if ((events & VIPL_STREAM_WRITABLE) != 0 || (shut & SOCK_SHUT_WRITE) != 0) {
        ready |= POLLOUT | POLLWRNORM;
    }
    if ((events & VIPL_STREAM_ENDED) != 0 || (shut & SOCK_SHUT_READ) != 0) {
        ready |= POLLRDHUP;
        ready |= (shut & SOCK_SHUT_WRITE) != 0 ? POLLHUP : 0;
    }
    if ((events & (VIPL_STREAM_BROKEN | VIPL_STREAM_RESET)) != 0) {
        ready |= POLLHUP | (vipl_load_relaxed(&conn->told) != 0 ? 0 : POLLERR);
    }
    return ready;
}

/* The error of a connection that is lost, reported or not; 0: it is not lost. */
static int error_of(struct sock_conn *conn)
{
    enum sock_state state = sock_conn_state(conn);
    if (state != SOCK_MOVED) {
        return state == SOCK_BROKEN ? conn->error : state == SOCK_FOREIGN ? ECONNRESET : 0;
    }
    unsigned events = vipl_stream_events(conn->stream);
    return (events & VIPL_STREAM_BROKEN) != 0 ? ECONNRESET : (events & VIPL_STREAM_RESET) != 0 ? EPIPE : 0;
}

int sock_conn_take_error(struct sock_conn *conn)
{
    int error = error_of(conn);
    if (error == 0 || vipl_exchange(&conn->told, 1) != 0) {
        return 0;
    }
    if (sock_conn_state(conn) == SOCK_FOREIGN) {
        vipl_log(VIPL_LOG_ERROR, "sockets: a connection that was moved before a fork is the parent's alone");
    }
    return error;
}

/* --- fork --- */

void sock_conn_forked(struct sock_conn *conn)
{
    enum sock_state state = sock_conn_state(conn);
    bool is_parents =
        state == SOCK_MOVED || state == SOCK_HELLO_SENT || state == SOCK_JOINING || state == SOCK_COMMITTING;
    vipl_mutex_init(&conn->lock, VIPL_RANK_SOCK_CONN);
    vipl_list_init(&conn->hooks);
    vipl_list_init(&conn->link);
    conn->joins = false; /* the child counts from 0 */
    if (conn->stream != NULL) {
        vipl_stream_abandon(conn->stream);
        conn->stream = NULL;
    }
    if (is_parents) {
        vipl_store_relaxed(&conn->told, 0);
        vipl_store_release(&conn->state, SOCK_FOREIGN);
    }
}

void sock_conns_forked(void)
{
    vipl_pool_abandon(&conns);
}
