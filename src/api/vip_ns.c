/* SPDX-License-Identifier: MIT */
/* Entry points: asynchronous errors, system management, name service. */
#include <string.h>

#include "base/guard.h"
#include "base/handle.h"
#include "core/cache.h"
#include "core/connect.h"
#include "core/nic.h"
#include "core/service.h"
#include "core/stats.h"
#include "os/os.h"
#include "share/client_call.h"

static VIP_RETURN error_callback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context, VIP_ERROR_HANDLER Handler)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_error_handler(NicHandle, Context, Handler);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_error_handler_set(nic, Handler, Context);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context, VIP_ERROR_HANDLER Handler)
{
    return vipl_guard_enter() ? vipl_guard_leave(error_callback(NicHandle, Context, Handler))
                              : VIP_ERROR_NOT_SUPPORTED;
}

/* Returns the device's own address, the only one that a device can discover. */
static VIP_RETURN discover(struct vipl_nic *nic, VIP_AUTODISCOVERY_LIST *list)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&nic->lock);
    if (nic->discovered[0] == NULL) {
        nic->discovered[0] = vipl_zalloc(sizeof(VIP_NET_ADDRESS) + VIPL_MAX_HOST_ADDRESS);
        if (nic->discovered[0] != NULL) {
            vipl_address_write(&nic->address, nic->discovered[0]);
        }
    }
    if (nic->discovered[0] == NULL) {
        rc = VIP_ERROR_RESOURCE;
    } else {
        list->ADAddrArray = nic->discovered;
        list->NumAdAddrs = 1;
    }
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

static void describe_device(struct vipl_nic *nic, VIPX_DEVICE_PROPERTIES *out)
{
    memset(out, 0, sizeof(*out));
    if (nic->ops->describe != NULL) {
        nic->ops->describe(nic->be, out);
    }
}

static VIP_RETURN query_info(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType, VIP_PVOID SysManInfo)
{
    if (vipl_handle_is_shared(NicHandle) && SysManInfo != NULL) {
        return vipl_share_manage(NicHandle, InfoType, SysManInfo);
    }
    struct vipl_nic *nic = SysManInfo == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_SUCCESS;
    switch (InfoType) {
    case VIP_SMI_AUTODISCOVERY:
        rc = discover(nic, SysManInfo);
        break;
    case VIPX_SMI_NIC_STATISTICS:
        vipl_stats_nic(nic, SysManInfo);
        break;
    case VIPX_SMI_VI_STATISTICS:
        rc = vipl_stats_vi(nic, SysManInfo);
        break;
    case VIPX_SMI_CACHE_STATISTICS:
        vipl_cache_statistics(nic, SysManInfo);
        break;
    case VIPX_SMI_DEVICE_PROPERTIES:
        describe_device(nic, SysManInfo);
        break;
    default:
        rc = VIP_ERROR_NOT_SUPPORTED;
        break;
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                                VIP_PVOID SysManInfo)
{
    return vipl_guard_enter() ? vipl_guard_leave(query_info(NicHandle, InfoType, SysManInfo))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN check_nic(VIP_NIC_HANDLE handle)
{
    VIP_NIC_ATTRIBUTES attributes;
    if (vipl_handle_is_shared(handle)) {
        return vipl_share_query_nic(handle, &attributes);
    }
    struct vipl_nic *nic = vipl_nic_get(handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo)
{
    (void)NSInitInfo;
    return vipl_guard_enter() ? vipl_guard_leave(check_nic(NicHandle)) : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipNSShutdown(VIP_NIC_HANDLE NicHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(check_nic(NicHandle)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN host_by_name(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
                               VIP_ULONG NameIndex)
{
    struct vipl_address found;
    if (vipl_handle_is_shared(NicHandle) && Name != NULL && Address != NULL) {
        return vipl_share_host_by_name(NicHandle, Name, Address, NameIndex);
    }
    struct vipl_nic *nic = Name == NULL || Address == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    memset(&found, 0, sizeof(found));
    VIP_RETURN rc = VIP_ERROR_NAMESERVICE;
    if (NameIndex <= UINT32_MAX) {
        rc = nic->ops->resolve(nic->be, Name, (uint32_t)NameIndex, &found);
    }
    if (rc == VIP_SUCCESS) {
        vipl_address_write(&found, Address);
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
                                      VIP_ULONG NameIndex)
{
    return vipl_guard_enter() ? vipl_guard_leave(host_by_name(NicHandle, Name, Address, NameIndex))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN host_by_address(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
                                  VIP_ULONG *NameLen)
{
    struct vipl_address host;
    char name[256];
    bool complete = Address != NULL && NameLen != NULL && (Name != NULL || *NameLen == 0);
    if (vipl_handle_is_shared(NicHandle) && complete) {
        return vipl_share_host_by_address(NicHandle, Address, Name, NameLen);
    }
    struct vipl_nic *nic = complete ? vipl_nic_get(NicHandle) : NULL;
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    if (vipl_address_read(nic, Address, &host)) {
        rc = nic->ops->reverse(nic->be, &host, name, sizeof(name));
    }
    if (rc == VIP_SUCCESS) {
        VIP_ULONG needed = (VIP_ULONG)strlen(name) + 1;
        if (*NameLen < needed) {
            rc = VIP_ERROR_RESOURCE;
        } else {
            memcpy(Name, name, needed);
        }
        *NameLen = needed;
    }
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
                                      VIP_ULONG *NameLen)
{
    return vipl_guard_enter() ? vipl_guard_leave(host_by_address(NicHandle, Address, Name, NameLen))
                              : VIP_ERROR_NOT_SUPPORTED;
}
