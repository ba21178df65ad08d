/* SPDX-License-Identifier: MIT */
/* Connections as what descriptors stand for (table.h): what becomes of one that is closed. */
#include "base/list.h"
#include "sockets/conn.h"
#include "sockets/places.h"
#include "sockets/wait.h"

static struct sock_conn *conn_of_file(struct sock_file *file)
{
    return VIPL_CONTAINER(file, struct sock_conn, file);
}

/* What a client has made of its connection, which ends, says whether others like it are moved. */
static void judge(const struct sock_conn *conn)
{
    enum sock_state state = sock_conn_state(conn);
    bool has_begun = state == SOCK_HELLO_SENT || state == SOCK_JOINING || state == SOCK_COMMITTING;
    struct vipl_stream_use use = {0};
    if (state == SOCK_MOVED) {
        use = vipl_stream_used(conn->stream);
    }
    if (conn->is_judged && (has_begun || state == SOCK_MOVED) && !use.peer_began) {
        sock_place_has_ended(&conn->place, use.messages, vipl_now_ns());
    }
}

/* The kernel's socket is closed by the caller, after this. A thread that is inside a call for the
 * connection keeps its reference, and thereby the stream, until it returns, as in the kernel. */
static void closed(struct sock_file *file)
{
    struct sock_conn *conn = conn_of_file(file);
    sock_handshake_finish(conn);
    judge(conn);
    vipl_mutex_lock(&conn->lock);
    sock_handshake_close_locked(conn);
    conn->kernel = -1;
    sock_conn_change_locked(conn, sock_conn_state(conn));
    vipl_mutex_unlock(&conn->lock);
    sock_epoll_forget(conn);
}

static void moved(struct sock_file *file, int fd, int other)
{
    struct sock_conn *conn = conn_of_file(file);
    vipl_mutex_lock(&conn->lock);
    if (conn->kernel == fd) {
        conn->kernel = other;
    }
    vipl_mutex_unlock(&conn->lock);
}

static void freed(struct sock_file *file)
{
    sock_conn_free(conn_of_file(file));
}

const struct sock_file_kind sock_conn_kind = {closed, moved, freed};
