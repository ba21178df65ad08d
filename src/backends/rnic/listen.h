/* SPDX-License-Identifier: MIT */
/* The accepting side of connections: listeners, and requests that wait for a program. */
#ifndef BACKENDS_RNIC_LISTEN_H
#define BACKENDS_RNIC_LISTEN_H

#include "backends/rnic/rnic.h"

/* A discriminator for which this process takes requests. The NIC handles and peer-to-peer requests
 * that listen for it share the listener. */
struct rnic_listener;

/* Operations of the table in rnic.c. */
VIP_RETURN vipl_rnic_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_rnic_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_rnic_conns_look(struct vipl_be_nic *be);
bool vipl_rnic_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn);
VIP_RETURN vipl_rnic_conn_accept_request(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
void vipl_rnic_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);

/* The caller of the functions below holds the registry's lock. */

/* Returns the listener for a discriminator, with one more reference. NULL: no memory, in this
 * process or on the card. */
struct rnic_listener *vipl_rnic_listener_get(struct rnic_device *device, const struct vipl_address *local);
void vipl_rnic_listener_put(struct rnic_device *device, struct rnic_listener *listener);

/* Handles a REQUEST. */
void vipl_rnic_listen_request(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message);
/* Drops a request that its sender has withdrawn. */
void vipl_rnic_listen_cancel(struct rnic_device *device, const struct vipl_rnic_peer *from, uint32_t serial);
/* Called when a function has ended: drops its requests that no program has taken. */
void vipl_rnic_listen_peer_lost(struct rnic_device *device, const uint8_t mac[6], uint16_t function);
/* Called when the card is dead: drops all requests that arrived through it. */
void vipl_rnic_listen_tear_down(struct rnic_device *device);
#endif
