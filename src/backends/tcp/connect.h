/* SPDX-License-Identifier: MIT */
/* The requesting side: client-server requests, and both sides of peer-to-peer ones. */
#ifndef VIPL_TCP_CONNECT_H
#define VIPL_TCP_CONNECT_H

#include "backends/tcp/request.h"

/* A VI's request for a connection, until it is decided. Guarded by the device's lock. */
struct tcp_connect_op {
    struct tcp_ended ended;
    struct vipl_list link;
    struct tcp_nic *nic;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_inet target;
    struct vipl_vi_params params;
    struct tcp_conn *conn; /* the probe under way, or the connection of a peer's request; NULL: none */
    struct tcp_conn *outstanding[TCP_PROBES]; /* earlier probes to which no reply has come yet */
    struct tcp_listener *listener;            /* peer-to-peer: where the peer may connect to; NULL: nowhere */
    bool peer;                                /* peer-to-peer */
    bool probing;                             /* this side connects to the other, which listens */
    bool tied;     /* peer-to-peer: both sides have the same name, and the one that gets a port listens */
    bool no_reply; /* some port did not react */
    bool unreachable;
    bool refused; /* some port has refused */
    unsigned
        unasked; /* a bit for each port that could not be asked last time: this host lacks something for it */
    unsigned probe;
    unsigned
        older; /* a bit for each port: its next request is in MPA revision 1, perhaps the only one known there */
    unsigned round;
    struct tcp_timer timer; /* until the next round */
};

/* The backend's operations of these names; no lock is held. */
VIP_RETURN vipl_tcp_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                            const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);

/* A peer-to-peer request has come. False: this side has none that it fits. The device's lock is held. */
bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_private_data *data);

#endif
