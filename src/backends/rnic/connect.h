/* SPDX-License-Identifier: MIT */
/* The requesting side of connections, and peer-to-peer requests on both sides. */
#ifndef BACKENDS_RNIC_CONNECT_H
#define BACKENDS_RNIC_CONNECT_H

#include "backends/rnic/rnic.h"

/* How far a request has got. */
enum rnic_heard {
    RNIC_HEARD_NOTHING,
    RNIC_HEARD_NO_MATCH, /* the card, or a driver, has no listener for it */
    RNIC_HEARD_BUSY,     /* there is no room for it now */
    /* it waits for a program: which counts, when several drivers have been asked */
    RNIC_HEARD_PENDING
};

/* A request under way, of either model. Guarded by the registry. */
struct rnic_connect_op {
    struct vipl_list link; /* device->ops */
    /* REQUESTING: this side sends the request; WAITING, ACCEPTING: the other one does */
    struct rnic_vi *rv;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_vi_params params;
    uint8_t mac[6];
    bool peer;
    bool tied; /* peer-to-peer, and both sides have the same name: REQUESTING, it may also accept */
    uint32_t serial;
    enum rnic_heard heard; /* of the last request that has been answered */
    bool answered;         /* the last one has been */
    bool accepted;         /* by `acceptor`, with `acceptance`; nothing has been made of it yet */
    struct vipl_rnic_peer acceptor;
    struct cm_message acceptance;
    uint16_t function;              /* PENDING: the first that has the request */
    bool is_shared;                 /* others have it too */
    unsigned round;                 /* of tries without a listener */
    uint64_t at;                    /* REQUESTING: when it is sent again */
    struct rnic_listener *listener; /* where the other side's request is to come; NULL: nowhere */
};

VIP_RETURN vipl_rnic_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                             const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_rnic_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn);

/* The rest under the registry's lock. */

void vipl_rnic_connect_end(struct rnic_connect_op *op); /* frees it */
/* Its VI has accepted a peer-to-peer request, of which nothing has become. */
void vipl_rnic_connect_again(struct rnic_connect_op *op);
/* ACCEPT, REJECT, REFUSED. */
void vipl_rnic_connect_reply(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message);
/* The sender ends what it had accepted. False: no request has its acceptance. */
bool vipl_rnic_connect_revoke(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message);
/* All that has come has been heard: VIs whose requests are accepted by now are CONNECTED. */
void vipl_rnic_connect_finish(struct rnic_device *device);
/* A peer-to-peer request: accepted if a VI waits for it. False: none does. */
bool vipl_rnic_connect_match(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message);
/* Sends again what is due. When there is something to be done next, by vipl_now_ns(); UINT64_MAX:
 * never. */
uint64_t vipl_rnic_connect_timers(struct rnic_device *device, uint64_t now);

#endif
