/* SPDX-License-Identifier: MIT */
/* Connections: events of the card, the acceptance of a request by a VI, and disconnecting. The
 * caller holds the registry's lock, unless a comment says otherwise. */
#ifndef BACKENDS_RNIC_CONN_H
#define BACKENDS_RNIC_CONN_H

#include "backends/rnic/rnic.h"

/* Handles all events that the card has written. */
void vipl_rnic_conn_events(struct rnic_device *device);
/* Called when the card is dead: fails the connections and requests on it, once. */
void vipl_rnic_conn_tear_down(struct rnic_device *device);

/* Sends a control message to a function. A message that cannot be sent is lost; its flow or the
 * card is dead then. */
void vipl_rnic_conn_send(struct rnic_device *device, const uint8_t mac[6], uint16_t function,
                         const struct cm_message *message);
/* Sends a control message that has no content besides its header. */
void vipl_rnic_conn_notify(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint8_t kind,
                           uint32_t source_qp, uint32_t serial);
/* Sends a REJECT. `reason`: CM_...; `code`: for CM_DISAGREES. */
void vipl_rnic_conn_refuse(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint32_t serial,
                           uint8_t reason, VIP_RETURN code);

/* Accepts a request of `peer` for the VI, which then waits for the peer's READY. Returns false if
 * the card refuses. */
bool vipl_rnic_conn_accept(struct rnic_vi *rv, const struct vipl_rnic_peer *peer,
                           const struct cm_message *request, const struct vipl_vi_params *own);
/* Returns the VI that has accepted this request and waits for its READY, or NULL. */
struct rnic_vi *vipl_rnic_conn_accepting(struct rnic_device *device, const struct vipl_rnic_peer *peer,
                                         uint32_t serial);
/* Ends the wait of a VI for READY: another request may come (peer-to-peer), or accepting has
 * failed. */
void vipl_rnic_conn_give_up(struct rnic_vi *rv);

/* Sends the DISCONNECTs that are pending, if they are due: each again, until the peer's card takes
 * it. Returns when they are due next, by vipl_now_ns(); UINT64_MAX: none is pending. */
uint64_t vipl_rnic_conn_timers(struct rnic_device *device, uint64_t now);
/* Drops the pending DISCONNECTs. Called when the card is closed, which ends its flows: the peers
 * notice that. */
void vipl_rnic_conn_drop_disconnects(struct rnic_device *device);

/* The operation `disconnect`: the VI has left CONNECTED. No lock is held. */
void vipl_rnic_conn_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi);

#endif
