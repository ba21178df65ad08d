/* SPDX-License-Identifier: MIT */
/*
 * Connecting: requests that have arrived and wait for an answer, and the request of a VI of this
 * process. The backend finds the other end; core decides which VIs may be connected, and when a
 * request is over.
 */
#ifndef VIPL_CORE_CONNECT_H
#define VIPL_CORE_CONNECT_H

#include "base/list.h"
#include "base/pool.h"
#include "core/backend.h"

struct vipl_nic;

enum vipl_conn_state {
    VIPL_CONN_WAITING,  /* the program has not taken the request */
    VIPL_CONN_TAKEN,    /* VipConnectWait() has handed the request to the program */
    VIPL_CONN_ANSWERING /* a thread accepts or rejects the request */
};

/* A request that has arrived. From the pool; all fields are guarded by the NIC's lock. */
struct vipl_conn {
    uint64_t area[VIPL_CONN_AREA_BYTES / 8]; /* the backend's part; first, see vipl_conn_area() */
    void *handle;                            /* set while TAKEN */
    struct vipl_nic *nic;
    struct vipl_list link; /* nic->conns. In the pool: free link */
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_vi_params params;
    enum vipl_conn_state state;
};

/* The functions of the API that connect. The caller is inside the API guard and holds no lock. */
VIP_RETURN vipl_connect_wait(struct vipl_nic *nic, const struct vipl_address *local, VIP_ULONG timeout,
                             VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **handle);
VIP_RETURN vipl_connect_accept(void *conn_handle, void *vi_handle);
VIP_RETURN vipl_connect_reject(void *conn_handle);
VIP_RETURN vipl_connect_request(void *vi_handle, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                bool at_once, VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_connect_peer(void *vi_handle, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                             VIP_ULONG timeout);
VIP_RETURN vipl_connect_peer_done(void *vi_handle, VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_connect_peer_wait(void *vi_handle, VIP_VI_ATTRIBUTES *attributes);

/* Rejects the requests that VipConnectWait() has returned and that have no answer. The others are
 * left to other listeners. The NIC handle is closing, and no call uses it any more. */
void vipl_conns_close(struct vipl_nic *nic);
void vipl_conn_abandon_pool(void);

/* Convert addresses from and to the layout of the API. vipl_address_read() returns false if the
 * device does not allow a length. */
bool vipl_address_read(const struct vipl_nic *nic, const VIP_NET_ADDRESS *in, struct vipl_address *out);
void vipl_address_write(const struct vipl_address *in, VIP_NET_ADDRESS *out);

/* --- reason.c: log lines that say why a connection failed, where the code does not --- */

/* Logs why a request to `remote` ended with `rc`. `timeout` is the program's argument. Logs nothing
 * for VIP_SUCCESS, and for codes that need no explanation. */
void vipl_reason_connect(const struct vipl_nic *nic, const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
                         VIP_RETURN rc);
/* Logs how the parameters of the two VIs disagree. */
void vipl_reason_disagree(const struct vipl_vi_params *own, const struct vipl_vi_params *peer, VIP_RETURN rc);

#endif
