/* SPDX-License-Identifier: MIT */
/* Connecting: the operations of the contract, and requests as the rest of the backend ends them. */
#ifndef VIPL_LOOPBACK_CONNECT_H
#define VIPL_LOOPBACK_CONNECT_H

#include "backends/loopback/loopback.h"

void vipl_lo_registry_abandon(void);
bool vipl_lo_same_address(const struct vipl_address *a, const struct vipl_address *b);

/* --- operations of the contract --- */

VIP_RETURN vipl_lo_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_lo_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_lo_conns_look(struct vipl_be_nic *be);
VIP_RETURN vipl_lo_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                           const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_lo_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi);
bool vipl_lo_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn);
VIP_RETURN vipl_lo_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi);
void vipl_lo_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer);
void vipl_lo_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi);

/* --- the registry's lock is held --- */

/* The request is over: frees it. */
void vipl_lo_request_end(struct lo_request *request);
/* Joins a symmetric request with one that asks for it, if there is one. True: it is over. */
bool vipl_lo_request_meet(struct lo_request *request);

#endif
