/* SPDX-License-Identifier: MIT */
/* Entry points: devices, protection tags, memory. */
#include <string.h>

#include "base/config.h"
#include "base/config_check.h"
#include "base/guard.h"
#include "base/handle.h"
#include "core/cache.h"
#include "core/device.h"
#include "core/mem.h"
#include "core/nic.h"
#include "share/client_blocks.h"
#include "share/client_call.h"
#include "vipl/version.h"
#include "vipl/vipl.h"

/* Opens a device for sharing. Core's fork handlers are installed first, so that a child resets core
 * before its shared objects. */
static VIP_RETURN open_shareable(const char *device, void **nic)
{
    bool fork_handlers;
    if (!VIPL_SHARING) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_device_watch_forks(&fork_handlers) != 0 ? VIP_ERROR_RESOURCE
                                                        : vipl_share_open(device, fork_handlers, nic);
}

static VIP_RETURN open_nic(const VIP_CHAR *DeviceName, VIP_ULONG Flags, VIP_NIC_HANDLE *NicHandle)
{
    if (NicHandle == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *NicHandle = NULL;
    /* flags of NIC handles that are not shared */
    const VIP_ULONG own = VIPX_INLINE | VIPX_QUIET | VIPX_SPIN | VIPX_NO_LINGER | VIPX_BRIEF_LISTENER;
    if ((Flags & ~(VIPX_SHAREABLE | own)) != 0 || ((Flags & VIPX_SHAREABLE) != 0 && (Flags & own) != 0)) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_config_begin();
    VIP_RETURN rc = (Flags & VIPX_SHAREABLE) != 0 ? open_shareable(DeviceName, NicHandle)
                                                  : vipl_device_open(DeviceName, Flags, NicHandle);
    vipl_config_end();
    return rc;
}

VIP_RETURN VI_CALL VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(open_nic(DeviceName, 0, NicHandle))
                              : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipxOpenNic(const VIP_CHAR *DeviceName, VIP_ULONG Flags, VIP_NIC_HANDLE *NicHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(open_nic(DeviceName, Flags, NicHandle))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN alloc_shared(VIP_ULONG Length, VIP_PVOID *Address)
{
    bool fork_handlers;
    if (Address == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *Address = NULL;
    if (Length == 0) {
        return VIP_INVALID_PARAMETER;
    }
    if (!VIPL_SHARING) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_device_watch_forks(&fork_handlers) != 0 ? VIP_ERROR_RESOURCE
                                                        : vipl_share_alloc(Length, fork_handlers, Address);
}

VIP_RETURN VI_CALL VipxAllocShared(VIP_ULONG Length, VIP_PVOID *Address)
{
    return vipl_guard_enter() ? vipl_guard_leave(alloc_shared(Length, Address)) : VIP_ERROR_NOT_SUPPORTED;
}

/* The caches forget the block before another process may get its memory. */
static VIP_RETURN free_shared(VIP_PVOID Address)
{
    if (!VIPL_SHARING) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    size_t bytes = vipl_share_remove_block(Address);
    if (bytes > 0) {
        vipl_cache_forget_everywhere((uintptr_t)Address, (uintptr_t)Address + bytes);
    }
    VIP_RETURN rc = vipl_share_free(Address);
    if (rc != VIP_SUCCESS && bytes > 0) {
        vipl_share_add_block(Address, bytes);
    }
    return rc;
}

VIP_RETURN VI_CALL VipxFreeShared(VIP_PVOID Address)
{
    return vipl_guard_enter() ? vipl_guard_leave(free_shared(Address)) : VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VI_CALL VipCloseNic(VIP_NIC_HANDLE NicHandle)
{
    if (!vipl_guard_enter()) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return vipl_guard_leave(vipl_handle_is_shared(NicHandle) ? vipl_share_close(NicHandle)
                                                             : vipl_device_close(NicHandle));
}

static VIP_ULONG as_ulong(uint64_t value)
{
    return value > (VIP_ULONG)-1 ? (VIP_ULONG)-1 : (VIP_ULONG)value;
}

static void describe_nic(const struct vipl_nic *nic, VIP_NIC_ATTRIBUTES *out)
{
    const struct vipl_limits *limits = &nic->limits;
    memset(out, 0, sizeof(*out));
    memcpy(out->Name, nic->name, sizeof(out->Name));
    out->HardwareVersion = limits->hardware_version;
    out->ProviderVersion = VIPL_VERSION_MAJOR << 16 | VIPL_VERSION_MINOR << 8 | VIPL_VERSION_PATCH;
    out->NicAddressLen = nic->address.host_len;
    out->LocalNicAddress = nic->address.host;
    out->ThreadSafe = VIP_TRUE;
    out->MaxDiscriminatorLen = limits->max_discriminator;
    out->MaxRegisterBytes = as_ulong(limits->max_register_bytes);
    out->MaxRegisterRegions = limits->max_regions;
    out->MaxRegisterBlockBytes = as_ulong(limits->max_block_bytes);
    out->MaxVI = limits->max_vis;
    out->MaxDescriptorsPerQueue = limits->max_descriptors;
    out->MaxSegmentsPerDesc = limits->max_segments;
    out->MaxCQ = limits->max_cqs;
    out->MaxCQEntries = limits->max_cq_entries;
    out->MaxTransferSize = limits->max_transfer_size;
    out->NativeMTU = limits->native_mtu;
    out->MaxPtags = limits->max_ptags;
    out->ReliabilityLevelSupport = limits->reliability_levels;
    out->RDMAReadSupport = limits->rdma_read_levels;
}

static VIP_RETURN query_nic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *Attributes)
{
    if (vipl_handle_is_shared(NicHandle) && Attributes != NULL) {
        return vipl_share_query_nic(NicHandle, Attributes);
    }
    struct vipl_nic *nic = Attributes == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    describe_nic(nic, Attributes);
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *Attributes)
{
    return vipl_guard_enter() ? vipl_guard_leave(query_nic(NicHandle, Attributes)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN create_ptag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag)
{
    if (Ptag == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *Ptag = NULL;
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_create_ptag(NicHandle, Ptag);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_ptag_create(nic, Ptag);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag)
{
    return vipl_guard_enter() ? vipl_guard_leave(create_ptag(NicHandle, Ptag)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN destroy_ptag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_destroy_ptag(NicHandle, Ptag);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_cache_drop_idle(nic, Ptag);
    VIP_RETURN rc = vipl_ptag_destroy(nic, Ptag);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag)
{
    return vipl_guard_enter() ? vipl_guard_leave(destroy_ptag(NicHandle, Ptag)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN register_mem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                               VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemHandle)
{
    static const VIP_MEM_ATTRIBUTES none = {NULL, VIP_FALSE, VIP_FALSE};
    if (MemHandle == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *MemHandle = 0;
    if (Address == NULL || Length == 0 || Length > UINTPTR_MAX - (uintptr_t)Address) {
        return VIP_INVALID_PARAMETER;
    }
    const VIP_MEM_ATTRIBUTES *attributes = MemAttribs == NULL ? &none : MemAttribs;
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_register(NicHandle, Address, Length, attributes, MemHandle);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc;
    do { /* idle regions of the cache may be what the device has no room for */
        rc = vipl_mem_register(nic, Address, Length, attributes, VIPL_REGION_OF_PROGRAM, MemHandle);
    } while (rc == VIP_ERROR_RESOURCE && vipl_cache_drop_idle(nic, NULL));
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                                  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemHandle)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(register_mem(NicHandle, Address, Length, MemAttribs, MemHandle))
               : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN deregister_mem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_deregister(NicHandle, Address, MemHandle);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_mem_deregister(nic, Address, MemHandle, VIPL_REGION_OF_PROGRAM);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle)
{
    return vipl_guard_enter() ? vipl_guard_leave(deregister_mem(NicHandle, Address, MemHandle))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN query_mem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                            VIP_MEM_ATTRIBUTES *MemAttribs)
{
    if (vipl_handle_is_shared(NicHandle) && MemAttribs != NULL) {
        return vipl_share_query_mem(NicHandle, Address, MemHandle, MemAttribs);
    }
    struct vipl_nic *nic = MemAttribs == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_mem_query(nic, Address, MemHandle, MemAttribs);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                               VIP_MEM_ATTRIBUTES *MemAttribs)
{
    return vipl_guard_enter() ? vipl_guard_leave(query_mem(NicHandle, Address, MemHandle, MemAttribs))
                              : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN set_mem_attributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                                     VIP_MEM_ATTRIBUTES *MemAttribs)
{
    if (vipl_handle_is_shared(NicHandle) && MemAttribs != NULL) {
        return vipl_share_change_mem(NicHandle, Address, MemHandle, MemAttribs);
    }
    struct vipl_nic *nic = MemAttribs == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_mem_change(nic, Address, MemHandle, MemAttribs);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                                       VIP_MEM_ATTRIBUTES *MemAttribs)
{
    return vipl_guard_enter()
               ? vipl_guard_leave(set_mem_attributes(NicHandle, Address, MemHandle, MemAttribs))
               : VIP_ERROR_NOT_SUPPORTED;
}
