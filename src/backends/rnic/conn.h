/* SPDX-License-Identifier: MIT */
/* Connections: events of the card, the acceptance of a request by a VI, and the end. The registry's
 * lock is held by all callers, but where a function says otherwise. */
#ifndef BACKENDS_RNIC_CONN_H
#define BACKENDS_RNIC_CONN_H

#include "backends/rnic/rnic.h"

/* Handles the events that are there. */
void vipl_rnic_conn_events(struct rnic_device *device);
/* The card is dead: all that depends on it is told, once. */
void vipl_rnic_conn_tear_down(struct rnic_device *device);

/* A control message to where an event came from, or elsewhere. What cannot be sent is lost with its
 * flow, or with the card. */
void vipl_rnic_conn_send(struct rnic_device *device, const uint8_t mac[6], uint16_t function,
                         const struct cm_message *message);
/* The same, with nothing but its kind and what it is about. */
void vipl_rnic_conn_notify(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint8_t kind,
                           uint32_t source_qp, uint32_t serial);
void vipl_rnic_conn_refuse(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint32_t serial,
                           uint8_t reason, VIP_RETURN code);

/* The VI accepts a request of `peer`, and waits for its READY. False: the card refuses. */
bool vipl_rnic_conn_accept(struct rnic_vi *rv, const struct vipl_rnic_peer *peer,
                           const struct cm_message *request, const struct vipl_vi_params *own);
/* The VI that has accepted this request and waits; NULL: none. */
struct rnic_vi *vipl_rnic_conn_accepting(struct rnic_device *device, const struct vipl_rnic_peer *peer,
                                         uint32_t serial);
/* It waits for it no longer. */
void vipl_rnic_conn_give_up(struct rnic_vi *rv);

/* Tells peers of ends that their cards did not take before, when it is time. When that is next, by
 * vipl_now_ns(); UINT64_MAX: never. */
uint64_t vipl_rnic_conn_timers(struct rnic_device *device, uint64_t now);
/* The card is closed, which tells them all. */
void vipl_rnic_conn_drop_disconnects(struct rnic_device *device);

/* The VI has left CONNECTED. No lock is held. */
void vipl_rnic_conn_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi);

#endif
