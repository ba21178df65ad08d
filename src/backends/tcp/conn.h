/* SPDX-License-Identifier: MIT */
/* A connection, from its socket to the peer's end of it. The device's lock is held in
 * all functions here. */
#ifndef VIPL_TCP_CONN_H
#define VIPL_TCP_CONN_H

#include "backends/tcp/rx.h"
#include "backends/tcp/tcp.h"
#include "backends/tcp/tx.h"
#include "core/backend_up.h"

enum tcp_state {
    TCP_CONNECTING,       /* TCP connects, for a connect operation */
    TCP_REQUEST_SENT,     /* the request of this side is sent */
    TCP_AWAIT_REQUEST,    /* accepted by the listener; the peer's request has not come yet */
    TCP_PENDING_ACCEPT,   /* the peer's request waits for the program to accept or reject it */
    TCP_REPLY_SENT,       /* accepted by the program; the peer's first FPDU has not come yet */
    TCP_AWAIT_FIRST_FPDU, /* open with a foreign peer, of which no FPDU has come yet */
    TCP_OPEN,
    TCP_ENDING /* without a VI; the peer has not closed its half yet */
};

struct tcp_conn;

/* What a connection does when something happens to it. The functions are those of the file that the
 * connection belongs to at the time: listen.c or connect.c, then open.c, last conn.c. NULL: the
 * event cannot occur, or needs nothing done. */
struct tcp_handler {
    void (*ready)(struct tcp_conn *conn, int events); /* the socket is readable or writable */
    void (*expired)(struct tcp_conn *conn);           /* its deadline has passed */
    /* The peer's first FPDU has come. Returns false if the connection has broken or ended. */
    bool (*first_fpdu)(struct tcp_conn *conn);
    void (*failed)(struct tcp_conn *conn, VIP_ERROR_CODE code);
    void (*closing)(struct tcp_conn *conn); /* the connection is about to be closed */
};

/* What vipl_tcp_conn_accept() waits for; on its stack. */
struct tcp_acceptance {
    bool over;
    bool opened;
};

/* A connection. Fields without a remark are guarded by the device's lock. */
struct tcp_conn {
    struct tcp_ended ended;
    struct vipl_list link;
    struct vipl_list half_open_link; /* in peer_host->conns, while half-open */
    struct tcp_peer_host *peer_host; /* NULL: not half-open */
    struct vipl_list tx_pending;     /* in nic->tx_pending; guarded by tx_pending_lock */
    struct tcp_nic *nic;             /* constant */
    enum tcp_state state;
    const struct tcp_handler *handler;
    int fd;        /* constant */
    int events;    /* TCP_READABLE, TCP_WRITABLE: what the loop watches the socket for */
    bool readable; /* something has been received since this was cleared */
    /* checks in a row at which the peer's host owed an acknowledgment and was silent */
    unsigned silent_checks;
    bool broken; /* nothing is received any more; the VI has failed, or is about to */
    struct tcp_watch watch;
    struct tcp_timer timer;
    struct vipl_vi *vi;
    struct vipl_conn *request; /* TCP_PENDING_ACCEPT: the request that core has */
    /* the connect operation that this connection is for, until the operation is over */
    struct tcp_connect_op *connect_op;
    unsigned probe; /* the number of the port that it probes */
    struct tcp_acceptance *acceptance;
    struct vipl_inet peer;
    struct vipl_address local;    /* its listener's; a foreign requester names no discriminator */
    struct vipl_vi_params params; /* of the VI of the peer */
    /* the request that was received, or sent; later a foreign peer's reply */
    struct vipl_mpa_start start;
    struct vipl_mpa_enhanced enhanced;
    bool crc;
    bool foreign; /* the peer is not this library; constant from the peer's request or reply on */
    bool unreliable;
    bool confirms_sends;  /* an empty read of the peer confirms each Send: Reliable Reception */
    bool confirms_writes; /* and each RDMA Write: both reliable levels */
    /* Payload bytes of an outgoing DDP segment; with a foreign peer guarded by tx.lock. */
    uint32_t segment;
    unsigned kicks;              /* empty RDMA Writes sent to a silent foreign peer */
    struct tcp_marking *marking; /* NULL: no markers are sent; constant while open */
    struct tcp_receiving rx;
    struct tcp_sending tx; /* guarded by tx.lock */
};

/* The backend's part of a VI. */
struct tcp_vi {
    struct tcp_conn *conn;             /* written under both queue locks and the device's lock */
    struct tcp_connect_op *connect_op; /* guarded by the device's lock */
};
_Static_assert(sizeof(struct tcp_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");

static inline struct tcp_vi *tcp_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}

/* Makes a connection, which owns `fd`. Without memory, closes `fd` and returns NULL. */
struct tcp_conn *vipl_tcp_conn_new(struct tcp_nic *nic, int fd, enum tcp_state state,
                                   const struct tcp_handler *handler);
void vipl_tcp_conn_watch(struct tcp_conn *conn, int events);
/* watches the sockets that could not be watched for lack of memory (tcp_nic.unwatched) */
void vipl_tcp_watch_again(struct tcp_nic *nic);
/* Has the kernel not watch the only connection while a program polls it: being watched costs its
 * peer time. vipl_tcp_resume_watch() ends that. */
void vipl_tcp_conn_pause_watch(struct tcp_conn *conn);
void vipl_tcp_resume_watch(struct tcp_nic *nic);
void vipl_tcp_conn_deadline(struct tcp_conn *conn, uint32_t ms); /* 0: no deadline */
/* Closes a connection at once. It has no VI, connect operation or request. */
void vipl_tcp_conn_close(struct tcp_conn *conn);
/* Ends this side's half of the stream of a connection without a VI, and waits for
 * the peer's end. */
void vipl_tcp_conn_end(struct tcp_conn *conn);
/* no lock of the VI is held */
void vipl_tcp_conn_attach(struct tcp_conn *conn, struct vipl_vi *vi);
void vipl_tcp_conn_detach(struct tcp_conn *conn); /* no lock of the VI is held */
/* The connection has broken: fails its VI, or the attempt to connect. */
void vipl_tcp_conn_fail(struct tcp_conn *conn, VIP_ERROR_CODE code);
/* Returns false if the VI has failed; nothing more is received for it then. */
bool vipl_tcp_still_works(struct tcp_conn *conn);
#endif
