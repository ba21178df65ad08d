/* SPDX-License-Identifier: MIT */
/* Entry points: VIs and connections. */
#include "core/vi.h"
#include "base/guard.h"
#include "base/handle.h"
#include "core/connect.h"
#include "core/nic.h"
#include "share/client_call.h"
#include "vipl/posix.h"
#include "vipl/vipl.h"

static VIP_RETURN create_vi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
                            VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle, VIP_VI_HANDLE *ViHandle)
{
    if (ViHandle == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *ViHandle = NULL;
    if (vipl_handle_is_shared(NicHandle) && ViAttribs != NULL) {
        return vipl_share_create_vi(NicHandle, ViAttribs, SendCQHandle, RecvCQHandle, ViHandle);
    }
    struct vipl_nic *nic = ViAttribs == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_vi_create(nic, ViAttribs, SendCQHandle, RecvCQHandle, ViHandle);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
                               VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
                               VIP_VI_HANDLE *ViHandle)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(create_vi(NicHandle, ViAttribs, SendCQHandle, RecvCQHandle, ViHandle))
               : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipDestroyVi(VIP_VI_HANDLE ViHandle)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ViHandle) ? vipl_share_destroy_vi(ViHandle)
                                                            : vipl_vi_destroy(ViHandle));
}

static VIP_RETURN query(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *ViAttribs,
                        VIP_BOOLEAN *SendQueueEmpty, VIP_BOOLEAN *RecvQueueEmpty)
{
    struct vipl_vi *vi = vipl_vi_lock_send(ViHandle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_biased_lock(&vi->recv.lock);
    *State = vi->state;
    if (ViAttribs != NULL) {
        *ViAttribs = vi->attributes;
    }
    if (SendQueueEmpty != NULL) {
        *SendQueueEmpty = vi->send.reaped == vi->send.posted ? VIP_TRUE : VIP_FALSE;
    }
    if (RecvQueueEmpty != NULL) {
        *RecvQueueEmpty = vi->recv.reaped == vi->recv.posted ? VIP_TRUE : VIP_FALSE;
    }
    vipl_vi_unlock(vi);
    return VIP_SUCCESS;
}

/* Progress takes most of the stack, and has no frame above it but this one. */
VIP_RETURN VI_CALL VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *ViAttribs,
                              VIP_BOOLEAN *SendQueueEmpty, VIP_BOOLEAN *RecvQueueEmpty)
{
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    if (!vipl_guard_enter_safe()) {
        return VIP_ERROR_RESOURCE;
    }
    if (State != NULL && vipl_handle_is_shared(ViHandle)) {
        rc = vipl_share_query_vi(ViHandle, State, ViAttribs, SendQueueEmpty, RecvQueueEmpty);
    } else if (State != NULL && vipl_vi_progress(ViHandle)) {
        rc = query(ViHandle, State, ViAttribs, SendQueueEmpty, RecvQueueEmpty);
    }
    vipl_guard_leave_safe();
    return rc;
}

static VIP_RETURN set_vi_attributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs)
{
    if (vipl_handle_is_shared(ViHandle) && ViAttribs != NULL) {
        return vipl_share_change_vi(ViHandle, ViAttribs);
    }
    return ViAttribs == NULL ? VIP_INVALID_PARAMETER : vipl_vi_change(ViHandle, ViAttribs);
}

VIP_RETURN VI_CALL VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs)
{
    return vipl_guard_enter() ? vipl_guard_leave(set_vi_attributes(ViHandle, ViAttribs))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN set_user_data(VIP_VI_HANDLE ViHandle, VIP_PVOID UserData)
{
    if (vipl_handle_is_shared(ViHandle)) {
        return vipl_share_set_user_data(ViHandle, UserData);
    }
    struct vipl_vi *vi = vipl_vi_lock_send(ViHandle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_store_ptr(&vi->user_data, UserData);
    vipl_biased_unlock(&vi->send.lock);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID UserData)
{
    return vipl_guard_enter() ? vipl_guard_leave(set_user_data(ViHandle, UserData)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN get_user_data(VIP_VI_HANDLE ViHandle, void **data)
{
    if (vipl_handle_is_shared(ViHandle)) {
        *data = vipl_share_get_user_data(ViHandle);
        return VIP_SUCCESS;
    }
    struct vipl_vi *vi = vipl_vi_lock_send(ViHandle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *data = vipl_load_ptr(&vi->user_data);
    vipl_biased_unlock(&vi->send.lock);
    return VIP_SUCCESS;
}

VIP_PVOID VI_CALL VipGetUserData(VIP_VI_HANDLE ViHandle)
{
    void *data = NULL;
    if (vipl_guard_enter()) {
        vipl_guard_leave(get_user_data(ViHandle, &data));
    }
    return data;
}

static VIP_RETURN connect_wait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
                               VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
                               VIP_CONN_HANDLE *ConnHandle)
{
    struct vipl_address local;
    if (ConnHandle == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *ConnHandle = NULL;
    bool complete = LocalAddr != NULL && RemoteAddr != NULL && RemoteViAttribs != NULL;
    if (vipl_handle_is_shared(NicHandle) && complete) {
        return vipl_share_connect_wait(NicHandle, LocalAddr, Timeout, RemoteAddr, RemoteViAttribs,
                                       ConnHandle);
    }
    struct vipl_nic *nic = complete ? vipl_nic_get(NicHandle) : NULL;
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    if (vipl_address_read(nic, LocalAddr, &local)) {
        rc = vipl_connect_wait(nic, &local, Timeout, RemoteAddr, RemoteViAttribs, ConnHandle);
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
                                  VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
                                  VIP_CONN_HANDLE *ConnHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(connect_wait(NicHandle, LocalAddr, Timeout, RemoteAddr,
                                                              RemoteViAttribs, ConnHandle))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ConnHandle) ? vipl_share_accept(ConnHandle, ViHandle)
                                                              : vipl_connect_accept(ConnHandle, ViHandle));
}

VIP_RETURN VI_CALL VipConnectReject(VIP_CONN_HANDLE ConnHandle)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ConnHandle) ? vipl_share_reject(ConnHandle)
                                                              : vipl_connect_reject(ConnHandle));
}

static VIP_RETURN connect_request(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                  VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Flags, VIP_ULONG Timeout,
                                  VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    if (LocalAddr == NULL || RemoteAddr == NULL || (Flags & ~VIPX_AT_ONCE) != 0) {
        return VIP_INVALID_PARAMETER;
    }
    if (vipl_handle_is_shared(ViHandle)) {
        return vipl_share_connect(ViHandle, LocalAddr, RemoteAddr, Flags, Timeout, RemoteViAttribs);
    }
    bool at_once = (Flags & VIPX_AT_ONCE) != 0;
    return vipl_connect_request(ViHandle, LocalAddr, RemoteAddr, at_once, Timeout, RemoteViAttribs);
}

VIP_RETURN VI_CALL VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                     VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
                                     VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    return vipl_guard_enter() ? vipl_guard_leave(connect_request(ViHandle, LocalAddr, RemoteAddr, 0, Timeout,
                                                                 RemoteViAttribs))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipxConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                      VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Flags, VIP_ULONG Timeout,
                                      VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    return vipl_guard_enter() ? vipl_guard_leave(connect_request(ViHandle, LocalAddr, RemoteAddr, Flags,
                                                                 Timeout, RemoteViAttribs))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipDisconnect(VIP_VI_HANDLE ViHandle)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ViHandle) ? vipl_share_disconnect(ViHandle)
                                                            : vipl_vi_disconnect(ViHandle));
}

static VIP_RETURN connect_peer_request(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                       VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
    if (LocalAddr == NULL || RemoteAddr == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    if (vipl_handle_is_shared(ViHandle)) {
        return vipl_share_peer_request(ViHandle, LocalAddr, RemoteAddr, Timeout);
    }
    return vipl_connect_peer(ViHandle, LocalAddr, RemoteAddr, Timeout);
}

VIP_RETURN VI_CALL VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                         VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(connect_peer_request(ViHandle, LocalAddr, RemoteAddr, Timeout))
               : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ViHandle)
                                ? vipl_share_peer_done(ViHandle, false, RemoteViAttribs)
                                : vipl_connect_peer_done(ViHandle, RemoteViAttribs));
}

VIP_RETURN VI_CALL VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(ViHandle)
                                ? vipl_share_peer_done(ViHandle, true, RemoteViAttribs)
                                : vipl_connect_peer_wait(ViHandle, RemoteViAttribs));
}
