/* SPDX-License-Identifier: MIT */
/* The accepting side: ports, half-open connections, requests, and the program's replies to them. */
#ifndef VIPL_TCP_LISTEN_H
#define VIPL_TCP_LISTEN_H

#include "backends/tcp/conn.h"

/* A host that half-open connections have come from. All here is guarded by the device's lock. */
struct tcp_peer_host {
    struct vipl_list link;
    struct vipl_list conns; /* tcp_conn.half_open_link, oldest first; never empty */
    uint32_t count;
    struct vipl_inet address; /* the port is not used */
};

/* A discriminator, and the port that is bound for it. */
struct tcp_listener {
    struct tcp_ended ended;
    struct vipl_list link;
    struct tcp_nic *nic;
    struct vipl_address local;
    bool listening; /* core takes requests for it */
    uint32_t peers; /* number of peer-to-peer requests that use the listener */
    int fd;
    struct tcp_watch watch;
};

/* The backend's part of a connection request. */
struct tcp_request {
    struct tcp_conn *conn; /* guarded by the device's lock; NULL: the requester is gone */
};
_Static_assert(sizeof(struct tcp_request) <= VIPL_CONN_AREA_BYTES, "the request's area holds it");

static inline struct tcp_request *tcp_request_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}

/* The backend's operations listen, unlisten, conn_taken, conn_accept and conn_reject; no lock is
 * held. */
VIP_RETURN vipl_tcp_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_tcp_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
bool vipl_tcp_conn_taken(struct vipl_be_nic *be, struct vipl_conn *request);
VIP_RETURN vipl_tcp_conn_accept(struct vipl_be_nic *be, struct vipl_conn *request, struct vipl_vi *vi);
void vipl_tcp_conn_reject(struct vipl_be_nic *be, struct vipl_conn *request, bool answer);

/* Returns the listener for a discriminator. If there is none, makes one on the first free port from
 * number `probe` on (`only`: on that port alone); NULL: none is free. The device's lock is held,
 * here and below. */
struct tcp_listener *vipl_tcp_listener(struct tcp_nic *nic, const struct vipl_address *local, unsigned probe,
                                       bool only);
/* The caller does not use the listener any more. Without users, the listener is closed. */
void vipl_tcp_listener_release(struct tcp_listener *listener);
void vipl_tcp_listeners_close(struct tcp_nic *nic);
/* accept_timer is due: watches the listeners again */
void vipl_tcp_accept_again(struct tcp_timer *timer);

#endif
