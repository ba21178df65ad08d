/* SPDX-License-Identifier: MIT */
/* Bringing the handshakes of other connections forward: a thread that waits, or that ends one, may
 * be the only one of the process, which may have both ends. */
#include <limits.h>
#include <poll.h>

#include "base/deadline.h"
#include "sockets/conn.h"
#include "sockets/drive.h"
#include "sockets/handshake.h"

static const uint64_t ns_per_ms = 1000000;

static void step_all(struct sock_conn *conn, void *unused)
{
    (void)unused;
    vipl_mutex_lock(&conn->lock);
    while (sock_handshake_step_locked(conn)) {
    }
    vipl_mutex_unlock(&conn->lock);
}

/* A connection that this process has accepted and not used for a while: no fork is about to give it
 * to a child. */
static void decide_here(int fd, struct sock_file *file, void *unused)
{
    struct sock_conn *conn = VIPL_CONTAINER(file, struct sock_conn, file);
    (void)fd;
    (void)unused;
    if (file->kind == &sock_conn_kind && sock_conn_state(conn) == SOCK_UNKNOWN &&
        vipl_now_ns() - conn->since > SOCK_OWN_PATIENCE_MS * ns_per_ms / 2) {
        step_all(conn, NULL);
    }
    sock_file_put(file);
}

void sock_handshakes_decide(void)
{
    sock_table_each(0, INT_MAX, decide_here, NULL);
}

void sock_handshake_finish(struct sock_conn *conn)
{
    uint64_t deadline = vipl_deadline(SOCK_COMMIT_MS);
    while (sock_conn_state(conn) == SOCK_COMMITTING && vipl_now_ns() < deadline) {
        sock_handshakes_each(step_all, NULL);
        step_all(conn, NULL);
        vipl_mutex_lock(&conn->lock);
        struct pollfd fd = {.fd = conn->kernel, .events = POLLIN};
        vipl_mutex_unlock(&conn->lock);
        if (sock_conn_state(conn) == SOCK_COMMITTING) {
            poll(&fd, 1, SOCK_OTHER_MS);
        }
    }
}

/* Brings the handshake forward if the VI's request has ended. */
static void step_if_joined(struct sock_conn *conn)
{
    VIP_VI_STATE state = VIP_STATE_CONNECT_PENDING;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN empty[2];
    vipl_mutex_lock(&conn->lock);
    if (sock_conn_state(conn) == SOCK_JOINING) {
        VipQueryVi(vipl_stream_vi(conn->stream), &state, &attributes, &empty[0], &empty[1]);
    }
    while (state != VIP_STATE_CONNECT_PENDING && sock_handshake_step_locked(conn)) {
    }
    vipl_mutex_unlock(&conn->lock);
}

void sock_handshakes_look(void)
{
    struct sock_conn *some[SOCK_MOST_JOINING];
    unsigned count = sock_pending_joining(some);
    for (unsigned i = 0; i < count; i++) {
        step_if_joined(some[i]);
        sock_conn_put(some[i]);
    }
}
