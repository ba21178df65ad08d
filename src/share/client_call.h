/* SPDX-License-Identifier: MIT */
/* Entry points for shared handles. Each makes a call to the server. Called by src/api without a
 * lock; the results are those of the VIPL functions. */
#ifndef VIPL_SHARE_CLIENT_CALL_H
#define VIPL_SHARE_CLIENT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/posix.h"

/* `fork_handlers`: see vipl_share_join(). */
VIP_RETURN vipl_share_open(const char *device, bool fork_handlers, void **nic);
VIP_RETURN vipl_share_close(void *nic);
VIP_RETURN vipl_share_query_nic(void *nic, VIP_NIC_ATTRIBUTES *out);
VIP_RETURN vipl_share_set_restart(void *nic, bool restarts);
/* whether this process's blocking calls on the NIC handle go on after signals */
bool vipl_share_restarts(const void *nic);
/* VipQuerySystemManagementInfo() */
VIP_RETURN vipl_share_manage(void *nic, VIP_ULONG type, void *info);

VIP_RETURN vipl_share_create_ptag(void *nic, void **out);
VIP_RETURN vipl_share_destroy_ptag(void *nic, void *ptag);
VIP_RETURN vipl_share_register(void *nic, void *address, VIP_ULONG length,
                               const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *out);
VIP_RETURN vipl_share_deregister(void *nic, void *address, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_share_query_mem(void *nic, void *address, VIP_MEM_HANDLE memory, VIP_MEM_ATTRIBUTES *out);
VIP_RETURN vipl_share_change_mem(void *nic, void *address, VIP_MEM_HANDLE memory,
                                 const VIP_MEM_ATTRIBUTES *in);
VIP_RETURN vipl_share_alloc(VIP_ULONG length, bool fork_handlers, void **out);
VIP_RETURN vipl_share_free(void *address);

VIP_RETURN vipl_share_create_cq(void *nic, VIP_ULONG entries, void **out);
VIP_RETURN vipl_share_destroy_cq(void *cq);
VIP_RETURN vipl_share_resize_cq(void *cq, VIP_ULONG entries);
/* Puts an entry that this process took off a completion queue's ring, but that is for other
 * clients, back to the end of the ring. */
VIP_RETURN vipl_share_hand_on(const void *cq, uint32_t code);

VIP_RETURN vipl_share_create_vi(void *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq, void *recv_cq,
                                void **out);
VIP_RETURN vipl_share_destroy_vi(void *vi);
VIP_RETURN vipl_share_query_vi(void *vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
                               VIP_BOOLEAN *send_empty, VIP_BOOLEAN *recv_empty);
VIP_RETURN vipl_share_change_vi(void *vi, const VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_share_set_user_data(void *vi, void *data);
void *vipl_share_get_user_data(void *vi);
VIP_RETURN vipl_share_post(void *vi, bool recv, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
/* A call that does nothing itself. Before any call, the server posts what clients have
 * left to it. */
void vipl_share_call_server(void);

VIP_RETURN vipl_share_connect_wait(void *nic, const VIP_NET_ADDRESS *local, VIP_ULONG timeout,
                                   VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **conn);
VIP_RETURN vipl_share_accept(void *conn, void *vi);
VIP_RETURN vipl_share_reject(void *conn);
VIP_RETURN vipl_share_connect(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                              VIP_ULONG flags, VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_share_disconnect(void *vi);
VIP_RETURN vipl_share_peer_request(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                   VIP_ULONG timeout);
VIP_RETURN vipl_share_peer_done(void *vi, bool wait, VIP_VI_ATTRIBUTES *attributes);

VIP_RETURN vipl_share_host_by_name(void *nic, const char *name, VIP_NET_ADDRESS *out, VIP_ULONG index);
VIP_RETURN vipl_share_host_by_address(void *nic, const VIP_NET_ADDRESS *address, char *name,
                                      VIP_ULONG *length);

VIP_RETURN vipl_share_notify(void *vi, bool recv, void *context, VIP_VI_CALLBACK handler);
VIP_RETURN vipl_share_notify_cq(void *cq, void *context, VIP_CQ_CALLBACK handler);
VIP_RETURN vipl_share_error_handler(void *nic, void *context, VIP_ERROR_HANDLER handler);

#endif
