/* SPDX-License-Identifier: MIT */
/* The accepting side of connections: listeners, and requests that wait for a program. */
#ifndef BACKENDS_RNIC_LISTEN_H
#define BACKENDS_RNIC_LISTEN_H

#include "backends/rnic/rnic.h"

/* A discriminator that this process takes requests for, of all its NIC handles and peer-to-peer
 * requests together. */
struct rnic_listener;

VIP_RETURN vipl_rnic_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_rnic_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_rnic_conns_look(struct vipl_be_nic *be);
bool vipl_rnic_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn);
VIP_RETURN vipl_rnic_conn_accept_request(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
void vipl_rnic_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);

/* The rest under the registry's lock. */

/* NULL: memory is short, the card's too. Put once for each get. */
struct rnic_listener *vipl_rnic_listener_get(struct rnic_device *device, const struct vipl_address *local);
void vipl_rnic_listener_put(struct rnic_device *device, struct rnic_listener *listener);

void vipl_rnic_listen_request(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message);
/* The request is withdrawn. */
void vipl_rnic_listen_cancel(struct rnic_device *device, const struct vipl_rnic_peer *from, uint32_t serial);
/* The function has ended: requests of it that no program has taken are void. */
void vipl_rnic_listen_peer_lost(struct rnic_device *device, const uint8_t mac[6], uint16_t function);
/* The card is dead: no request that came by it can be answered. */
void vipl_rnic_listen_tear_down(struct rnic_device *device);
#endif
