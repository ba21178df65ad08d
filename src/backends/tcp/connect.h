/* SPDX-License-Identifier: MIT */
/* The requesting side: client-server requests, and both sides of peer-to-peer ones. */
#ifndef VIPL_TCP_CONNECT_H
#define VIPL_TCP_CONNECT_H

#include "backends/tcp/request.h"

/* The connect operation of a VI, until its outcome is known. Guarded by the device's lock. */
struct tcp_connect_op {
    struct tcp_ended ended;
    struct vipl_list link;
    struct tcp_nic *nic;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_inet target;
    struct vipl_vi_params params;
    /* the connection of the probe under way, or of a peer's request; NULL: none */
    struct tcp_conn *conn;
    /* by port: earlier probes that have got no reply yet */
    struct tcp_conn *outstanding[TCP_MAX_PROBES];
    /* peer-to-peer: the listener that the peer may connect to; NULL: none */
    struct tcp_listener *listener;
    bool peer;    /* peer-to-peer */
    bool at_once; /* the operation ends with the round of probes that finds no listener */
    bool probing; /* this side connects, and the other side listens */
    /* peer-to-peer: both sides have the same name, and the one that gets a port listens */
    bool same_name;
    bool no_reply; /* a port did not answer */
    bool unreachable;
    unsigned refused; /* a bit for each port that has refused */
    unsigned busy;    /* a bit for each of them whose listener had no room */
    /* A bit for each port that could not be probed last time because this host lacked something. */
    unsigned not_probed;
    unsigned probe;
    /* A bit for each port whose next request is in MPA revision 1, which may be the only
     * one known there. */
    unsigned use_revision_1;
    unsigned round;
    struct tcp_timer timer; /* runs until the next round of probes */
};

/* The backend's operations connect and connect_cancel; no lock is held. */
VIP_RETURN vipl_tcp_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                            const struct vipl_address *remote, enum vipl_connect_kind kind);
VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);

/* A peer-to-peer request has come. Returns false if no operation of this side matches it. The
 * device's lock is held. */
bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_private_data *data);

#endif
