/* SPDX-License-Identifier: MIT */
/* Entry points of posix.h: memory of the device. */
#include "base/guard.h"
#include "base/handle.h"
#include "core/nic.h"
#include "vipl/posix.h"

/* The operations come in pairs (backend.h). */
static bool has_memory(const struct vipl_nic *nic)
{
    return nic->ops->memory_alloc != NULL;
}

static VIP_RETURN alloc_device(VIP_NIC_HANDLE NicHandle, VIP_ULONG Length, VIPX_DEVICE_MEMORY Kind,
                               VIP_PVOID *Address)
{
    if (Address == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *Address = NULL;
    if (Length == 0 || (unsigned)Kind > VIPX_DEVICE_SRAM) {
        return VIP_INVALID_PARAMETER;
    }
    if (vipl_handle_is_shared(NicHandle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc =
        has_memory(nic) ? nic->ops->memory_alloc(nic->be, Length, Kind, Address) : VIP_ERROR_NOT_SUPPORTED;
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipxAllocDevice(VIP_NIC_HANDLE NicHandle, VIP_ULONG Length, VIPX_DEVICE_MEMORY Kind,
                                   VIP_PVOID *Address)
{
    return vipl_guard_enter() ? vipl_guard_leave(alloc_device(NicHandle, Length, Kind, Address))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN free_device(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = has_memory(nic) ? nic->ops->memory_free(nic->be, Address) : VIP_ERROR_NOT_SUPPORTED;
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipxFreeDevice(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address)
{
    return vipl_guard_enter() ? vipl_guard_leave(free_device(NicHandle, Address)) : VIP_ERROR_NOT_SUPPORTED;
}
