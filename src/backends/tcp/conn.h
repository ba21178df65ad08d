/* SPDX-License-Identifier: MIT */
/* A connection from its socket to the peer's end of it. The device's lock is held unless it says otherwise. */
#ifndef VIPL_TCP_CONN_H
#define VIPL_TCP_CONN_H

#include "backends/tcp/rx.h"
#include "backends/tcp/tcp.h"
#include "backends/tcp/tx.h"
#include "core/backend_up.h"

enum tcp_state {
    TCP_CONNECTING,       /* TCP connects, for a connect operation */
    TCP_REQUEST_SENT,     /* our request is sent */
    TCP_AWAIT_REQUEST,    /* accepted; the peer's request has not come yet */
    TCP_PENDING_ACCEPT,   /* the peer's request waits for the program to accept or reject it */
    TCP_REPLY_SENT,       /* accepted by the program; the peer's first FPDU has not come yet */
    TCP_AWAIT_FIRST_FPDU, /* open, and no FPDU of a foreign peer's has come yet */
    TCP_OPEN,
    TCP_ENDING /* has no VI any more; the peer has not closed yet */
};

struct tcp_conn;

/* What happens to a connection is handled by the file that it belongs to at the time: listen.c or connect.c,
 * then open.c, at last conn.c. NULL: it cannot happen, or nothing is to be done. */
struct tcp_handler {
    void (*ready)(struct tcp_conn *conn, int events); /* the socket may be read or written */
    void (*expired)(struct tcp_conn *conn);           /* its deadline is over */
    bool (*first_fpdu)(struct tcp_conn *conn); /* it has come. False: the connection has broken or ended */
    void (*failed)(struct tcp_conn *conn, VIP_ERROR_CODE code);
    void (*closing)(struct tcp_conn *conn); /* the connection is about to be closed */
};

/* What conn_accept waits for; on its stack. */
struct tcp_acceptance {
    bool over;
    bool opened;
};

/* Fields without a remark are guarded by the device's lock. */
struct tcp_conn {
    struct tcp_ended ended;
    struct vipl_list link;
    struct vipl_list half_open_link; /* peer_host->conns, while half-open */
    struct tcp_peer_host *peer_host; /* NULL: not half-open */
    struct vipl_list tx_pending;     /* nic->tx_pending; guarded by tx_pending_lock */
    struct tcp_nic *nic;             /* constant */
    enum tcp_state state;
    const struct tcp_handler *handler;
    int fd;                 /* constant */
    int events;             /* what is to be watched */
    bool readable;          /* something has been received since this was cleared */
    unsigned silent_checks; /* in a row, in which the peer's host owed an acknowledgment and was silent */
    bool broken;            /* nothing is received any more; the VI has failed, or fails */
    struct tcp_watch watch;
    struct tcp_timer timer;
    struct vipl_vi *vi;
    struct vipl_conn *request;         /* TCP_PENDING_ACCEPT: core's */
    struct tcp_connect_op *connect_op; /* until it has its connection: what this one is for */
    unsigned probe;                    /* of its probe loop: which port */
    struct tcp_acceptance *acceptance;
    struct vipl_inet peer;
    struct vipl_address local;    /* its listener's; a foreign requester names no discriminator */
    struct vipl_vi_params params; /* the other VI's */
    struct vipl_mpa_start start;  /* the peer's request */
    struct vipl_mpa_enhanced enhanced;
    bool crc;
    bool foreign; /* the peer is no VIPL peer; constant from its request or reply on */
    bool unreliable;
    bool confirms_sends;  /* the VIPL peer asks for confirmation behind each: Reliable Reception */
    bool confirms_writes; /* and behind RDMA Writes: both reliable levels */
    uint32_t segment;     /* payload bytes of a DDP segment of ours; foreign peers': guarded by tx.lock */
    unsigned kicks;       /* empty RDMA Writes to a foreign peer from which nothing has come yet */
    struct tcp_marking *marking; /* NULL: no markers; constant while open */
    struct tcp_receiving rx;
    struct tcp_sending tx; /* guarded by tx.lock */
};

/* The backend's part of a VI. */
struct tcp_vi {
    struct tcp_conn *conn;             /* written under both queue locks and the device's */
    struct tcp_connect_op *connect_op; /* guarded by the device's lock */
};
_Static_assert(sizeof(struct tcp_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");

static inline struct tcp_vi *tcp_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}

/* Owns fd, or closes it and returns NULL. */
struct tcp_conn *vipl_tcp_conn_new(struct tcp_nic *nic, int fd, enum tcp_state state,
                                   const struct tcp_handler *handler);
void vipl_tcp_conn_watch(struct tcp_conn *conn, int events);
void vipl_tcp_watch_again(struct tcp_nic *nic); /* what nic->unwatched is about */
/* While a program polls the only connection, the kernel need not watch it as well: that costs its peer. */
void vipl_tcp_conn_rest(struct tcp_conn *conn);
void vipl_tcp_wake_resting(struct tcp_nic *nic);                 /* the kernel is to watch it again */
void vipl_tcp_conn_deadline(struct tcp_conn *conn, uint32_t ms); /* 0: none */
/* Closes at once; the connection has no VI, connect operation or request. */
void vipl_tcp_conn_close(struct tcp_conn *conn);
/* The connection has no VI any more: ends our half of the stream, and waits for the peer's end. */
void vipl_tcp_conn_end(struct tcp_conn *conn);
void vipl_tcp_conn_attach(struct tcp_conn *conn, struct vipl_vi *vi); /* no VI lock is held */
void vipl_tcp_conn_detach(struct tcp_conn *conn);                     /* likewise */
/* The connection broke: its VI fails, or the attempt to connect does. */
void vipl_tcp_conn_fail(struct tcp_conn *conn, VIP_ERROR_CODE code);
/* False: the VI has failed, and nothing more is received for it. */
bool vipl_tcp_still_works(struct tcp_conn *conn);
#endif
