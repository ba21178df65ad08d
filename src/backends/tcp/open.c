/* SPDX-License-Identifier: MIT */
/*
 * An open connection: what its socket's readiness, the peer's first FPDU and its failure lead to. A foreign peer from which nothing has
 * come yet gets empty RDMA Writes: siw as responder overlooks what comes between its reply and the change of its socket's
 * callbacks, until something else comes. A peer that had not overlooked anything takes no notice of them.
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
        vipl_tcp_output_poll(conn); /* what has left is complete */
        vipl_up_fail(conn->vi, code);
    }
}

static const struct tcp_handler open_handler = {
    .ready = open_ready, .expired = open_expired, .first_fpdu = open_first_fpdu, .failed = open_failed};

/* Remote access is to work while the program does not call in, and a burst is to leave: that takes the service thread. */
void vipl_tcp_open(struct tcp_conn *conn)
{
    conn->state = TCP_OPEN;
    conn->handler = &open_handler;
    vipl_tcp_conn_deadline(conn, 0);
    if (conn->nic->hot == NULL) {
        conn->nic->hot = conn;
        conn->nic->heard = false;
    }
    (void)vipl_up_need_service(conn->nic->core);
}

void vipl_tcp_open_foreign(struct tcp_conn *conn, bool quiet)
{
    vipl_tcp_open(conn);
    conn->state = TCP_AWAIT_FIRST_FPDU;
    conn->tx.quiet = quiet; /* the program cannot post yet */
    vipl_tcp_conn_deadline(conn, quiet ? 0 : KICK_MS);
}
