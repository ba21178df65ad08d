/* SPDX-License-Identifier: MIT */
/* The requesting side of connections, and peer-to-peer requests on both sides. */
#ifndef BACKENDS_RNIC_CONNECT_H
#define BACKENDS_RNIC_CONNECT_H

#include "backends/rnic/rnic.h"

/* The best answer to a request so far; later values are better. */
enum rnic_heard {
    RNIC_HEARD_NOTHING,
    RNIC_HEARD_NO_MATCH, /* the card or a driver has no listener for the request */
    RNIC_HEARD_BUSY,     /* there is no room for the request now */
    /* the request waits for a program; this answer of one driver counts more than those of
     * others */
    RNIC_HEARD_PENDING
};

/* A connection request under way, client-server or peer-to-peer. Guarded by the registry. */
struct rnic_connect_op {
    struct vipl_list link; /* device->ops */
    /* the VI, whose state is REQUESTING (this side sends the request), or WAITING or ACCEPTING (the
     * peer sends it) */
    struct rnic_vi *rv;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_vi_params params;
    uint8_t mac[6];
    bool peer;
    bool at_once; /* the request ends where a patient one would be sent again */
    bool tied;    /* peer-to-peer with equal names: a REQUESTING VI may also accept */
    uint32_t serial;
    enum rnic_heard heard; /* the answer to the last request that was answered */
    bool answered;         /* the last request has been answered */
    bool accepted;         /* `acceptor` has sent `acceptance`, which is still to be processed */
    struct vipl_rnic_peer acceptor;
    struct cm_message acceptance;
    uint16_t function;              /* PENDING: the first function that has the request */
    bool is_shared;                 /* other functions have the request too */
    unsigned round;                 /* of attempts that found no listener */
    uint64_t at;                    /* REQUESTING: when the request is sent again */
    struct rnic_listener *listener; /* for the peer's request; NULL: there is none */
};

/* The operations `connect` and `connect_cancel`. */
VIP_RETURN vipl_rnic_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                             const struct vipl_address *remote, enum vipl_connect_kind kind);
VIP_RETURN vipl_rnic_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);

/* The caller of the functions below holds the registry's lock. */

/* Ends and frees a request. */
void vipl_rnic_connect_end(struct rnic_connect_op *op);
/* Continues a peer-to-peer request whose VI had accepted the peer's request, when no connection has
 * come of that. */
void vipl_rnic_connect_again(struct rnic_connect_op *op);
/* Handles ACCEPT, REJECT and REFUSED. */
void vipl_rnic_connect_reply(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message);
/* The sender withdraws its ACCEPT. Returns false if no request has that ACCEPT. */
bool vipl_rnic_connect_revoke(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message);
/* Called when all messages that have arrived are handled: connects the VIs whose requests are
 * accepted. */
void vipl_rnic_connect_finish(struct rnic_device *device);
/* Accepts a peer-to-peer request if a VI waits for it. Returns false if none does. */
bool vipl_rnic_connect_match(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message);
/* Sends requests again that are due. Returns when the next one is due, by vipl_now_ns();
 * UINT64_MAX: never. */
uint64_t vipl_rnic_connect_timers(struct rnic_device *device, uint64_t now);

#endif
