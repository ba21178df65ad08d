/* SPDX-License-Identifier: MIT */
/* Handshakes as the calls of the program and the threads that wait see them. */
#include <poll.h>
#include <signal.h>

#include "base/deadline.h"
#include "sockets/conn.h"
#include "sockets/fault.h"
#include "sockets/handshake.h"
#include "sockets/handshake_bytes.h"

enum {
    HELD_LOOK_MS = 5, /* between two looks whether a message can be taken now */
    ASK_LOOK_MS = 1   /* between two looks for the answer of another host */
};
static const uint64_t ns_per_ms = 1000000;

/* The milliseconds, rounded up, that a write still waits for the outcome. */
static int patience_left(const struct sock_conn *conn)
{
    uint64_t waited = vipl_now_ns() - conn->since;
    return waited >= conn->patience ? 0 : (int)((conn->patience - waited + ns_per_ms - 1) / ns_per_ms);
}

/* What a thread waits for that waits for a connection in a handshake. */
static void describe_locked(struct sock_conn *conn, short wanted, struct sock_now *now)
{
    bool writes = (wanted & POLLOUT) != 0;
    now->kernel = POLLIN;
    now->nic = conn->stream != NULL ? conn->device : NULL;
    switch (now->state) {
    case SOCK_CONNECTING:
        now->kernel = (short)(conn->is_asking ? 0 : POLLOUT);
        now->again_ms = conn->is_asking ? ASK_LOOK_MS : -1;
        break;
    case SOCK_HELLO_SENT:
        now->again_ms = writes ? patience_left(conn) : -1;
        break;
    case SOCK_UNKNOWN:
        now->again_ms = writes ? patience_left(conn) : -1;
        writes = now->again_ms == 0;
        break;
    case SOCK_JOINING:
        now->kernel = (short)(conn->peer_commit == 0 ? POLLIN : 0);
        now->again_ms = vipl_ms_left(conn->join_by);
        break;
    default:
        break;
    }
    if (writes && (now->state == SOCK_STRIPPING || now->state == SOCK_UNKNOWN)) {
        now->ready = (short)(sock_bytes_ready(conn, POLLOUT) & (POLLOUT | POLLWRNORM));
        now->kernel |= POLLOUT;
        now->again_ms = -1;
    }
    if (now->state == SOCK_STRIPPING && sock_conn_is_stopped(conn)) {
        bool is_shut = (vipl_load_relaxed(&conn->shut) & SOCK_SHUT_WRITE) != 0;
        now->ready = (short)(now->ready | POLLIN | POLLRDNORM | POLLRDHUP | (is_shut ? POLLHUP : 0));
        now->kernel &= ~POLLIN; /* the kernel's socket is readable for good */
    }
    if (conn->is_held) {
        now->kernel &= ~POLLIN;
        now->again_ms = HELD_LOOK_MS;
    }
}

/* A client's write has waited in vain for a server of this process, which may have no thread but
 * this one: the server's end is decided here, once, and the client waits again. */
static void help_own_server(struct sock_conn *conn)
{
    vipl_mutex_lock(&conn->lock);
    bool helps = sock_conn_state(conn) == SOCK_HELLO_SENT && conn->is_own && patience_left(conn) == 0;
    conn->is_own = conn->is_own && !helps;
    conn->patience += helps ? SOCK_OWN_PATIENCE_MS * ns_per_ms : 0;
    vipl_mutex_unlock(&conn->lock);
    if (helps) {
        sock_handshakes_decide();
    }
}

struct sock_now sock_conn_advance(struct sock_conn *conn, short wanted)
{
    struct sock_now now = {.state = sock_conn_state(conn), .again_ms = -1};
    if (!sock_state_is_over(now.state)) {
        if ((wanted & POLLOUT) != 0) {
            help_own_server(conn);
        }
        vipl_mutex_lock(&conn->lock);
        while (sock_handshake_step_locked(conn)) {
        }
        if (sock_conn_state(conn) == SOCK_HELLO_SENT && (wanted & POLLOUT) != 0 && patience_left(conn) == 0) {
            sock_handshake_give_up_locked(conn, SOCK_NO_REPLY);
            while (sock_handshake_step_locked(conn)) {
            }
        }
        now.state = sock_conn_state(conn);
        if (!sock_state_is_over(now.state)) {
            describe_locked(conn, wanted, &now);
        }
        bool is_signalled = conn->is_held && sock_fault_is(SOCK_FAULT_SIGNAL);
        vipl_mutex_unlock(&conn->lock);
        if (is_signalled) {
            raise(SIGUSR1);
        }
    }
    if (now.state >= SOCK_MOVED) {
        now.ready = sock_conn_ready(conn);
    }
    return now;
}

void sock_conn_give_up(struct sock_conn *conn, enum sock_reason reason)
{
    sock_handshake_finish(conn);
    vipl_mutex_lock(&conn->lock);
    sock_handshake_give_up_locked(conn, reason);
    vipl_mutex_unlock(&conn->lock);
}

static void give_up_for_fork(struct sock_conn *conn, void *unused)
{
    (void)unused;
    sock_conn_give_up(conn, SOCK_FORKED);
}

void sock_handshake_before_fork(void)
{
    sock_handshakes_all(give_up_for_fork, NULL);
}

void sock_handshake_pay(struct sock_conn *conn)
{
    vipl_mutex_lock(&conn->lock);
    if (vipl_load_relaxed(&conn->owes) != 0) {
        sock_bytes_put_one(conn, SOCK_COMMIT_TCP); /* if it fails, so does what the program sends */
        vipl_store_relaxed(&conn->owes, 0);
        sock_conn_change_locked(conn, SOCK_PLAIN);
    }
    vipl_mutex_unlock(&conn->lock);
}

void sock_handshake_begin(struct sock_conn *conn, bool is_own_process)
{
    vipl_mutex_lock(&conn->lock);
    conn->is_client = true;
    conn->is_own = is_own_process;
    conn->patience = (is_own_process ? SOCK_OWN_PATIENCE_MS : sock_join_ms() / 2) * ns_per_ms;
    sock_pending_enter(conn);
    while (sock_handshake_step_locked(conn)) {
    }
    vipl_mutex_unlock(&conn->lock);
}
