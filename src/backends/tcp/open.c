/* SPDX-License-Identifier: MIT */
/*
 * An open connection: what it does when its socket is ready, when the peer's first FPDU comes, and
 * when it fails. A foreign peer that has sent nothing yet gets empty RDMA Writes. siw as the
 * responder overlooks what comes between its reply and the change of its socket's callbacks, until
 * something else comes. A peer that overlooked nothing ignores them.
 */
#include "backends/tcp/open.h"

#include "backends/tcp/output.h"

enum { KICK_MS = 50, KICKS = 4 };

static void open_ready(struct tcp_conn *conn, int events)
{
    if ((events & TCP_WRITABLE) != 0) {
        vipl_tcp_conn_watch(conn, TCP_READABLE);
        vipl_tcp_resume(conn);
    }
    if (!conn->broken && (events & TCP_READABLE) != 0) {
        vipl_tcp_receive(conn);
    }
}

static void open_expired(struct tcp_conn *conn)
{
    if (conn->state != TCP_AWAIT_FIRST_FPDU) {
        return;
    }
    vipl_tcp_send_empty(conn, VIPL_RDMAP_WRITE);
    if (++conn->kicks < KICKS) {
        vipl_tcp_conn_deadline(conn, KICK_MS << 2 * conn->kicks);
    }
}

static bool open_first_fpdu(struct tcp_conn *conn)
{
    conn->state = TCP_OPEN;
    vipl_tcp_conn_deadline(conn, 0);
    vipl_tcp_resume(conn);
    return vipl_tcp_still_works(conn);
}

static void open_failed(struct tcp_conn *conn, VIP_ERROR_CODE code)
{
    if (conn->vi != NULL) {
        vipl_tcp_output_poll(conn); /* the sends that the kernel has are complete */
        vipl_up_fail(conn->vi, code);
    }
}

static const struct tcp_handler open_handler = {
    .ready = open_ready, .expired = open_expired, .first_fpdu = open_first_fpdu, .failed = open_failed};

/* The service thread is needed: remote access must work, and output be flushed, while the program
 * makes no call. */
void vipl_tcp_open(struct tcp_conn *conn)
{
    conn->state = TCP_OPEN;
    conn->handler = &open_handler;
    vipl_tcp_conn_deadline(conn, 0);
    if (conn->nic->hot == NULL) {
        conn->nic->hot = conn;
        conn->nic->hot_has_received = false;
        conn->nic->hot_streak = 0;
    }
    (void)vipl_up_need_service(conn->nic->core);
}

void vipl_tcp_open_foreign(struct tcp_conn *conn, bool peer_sends_first)
{
    vipl_tcp_open(conn);
    conn->state = TCP_AWAIT_FIRST_FPDU;
    conn->tx.peer_sends_first = peer_sends_first; /* the program cannot post yet */
    vipl_tcp_conn_deadline(conn, peer_sends_first ? 0 : KICK_MS);
}
