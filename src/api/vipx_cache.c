/* SPDX-License-Identifier: MIT */
/* Entry points of cache.h. */
#include "base/guard.h"
#include "base/handle.h"
#include "core/cache.h"
#include "core/nic.h"
#include "share/client_blocks.h"
#include "vipl/cache.h"

static bool is_memory(VIP_PVOID address, VIP_ULONG length)
{
    return address != NULL && length > 0 && length <= UINTPTR_MAX - (uintptr_t)address;
}

static const VIP_MEM_ATTRIBUTES none = {NULL, VIP_FALSE, VIP_FALSE};

/* Enters the guard for the fast paths, which are as short as a post: without the thread's setting
 * of cancellation. As other functions they are refused in a signal handler that has interrupted a
 * sleep. */
static bool enter_fast(void)
{
    return vipl_guard.sleeps == 0 && vipl_guard_enter_safe();
}

static bool acquire_fast(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                         const VIP_MEM_ATTRIBUTES *MemAttribs, VIP_ULONG Flags,
                         VIPX_REGISTRATION *Registration)
{
    if (Registration == NULL || !is_memory(Address, Length) || (Flags & ~VIPX_WHOLE_PAGES) != 0 ||
        !enter_fast()) {
        return false;
    }
    bool done = vipl_cache_acquire_fast(NicHandle, Address, Length, MemAttribs == NULL ? &none : MemAttribs,
                                        Registration);
    vipl_guard_leave_safe();
    return done;
}

static VIP_RETURN acquire(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                          VIP_MEM_ATTRIBUTES *MemAttribs, VIP_ULONG Flags, VIPX_REGISTRATION *Registration)
{
    if (Registration == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *Registration = (VIPX_REGISTRATION){0, NULL};
    if (!is_memory(Address, Length) || (Flags & ~(VIPX_WHOLE_PAGES | VIPX_ONCE)) != 0) {
        return VIP_INVALID_PARAMETER;
    }
    if (vipl_handle_is_shared(NicHandle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_ULONG stays = VIPL_SHARING && vipl_share_has_memory(Address, Length) ? VIPL_CACHE_STAYS : 0;
    VIP_RETURN rc = vipl_cache_acquire(nic, Address, Length, MemAttribs == NULL ? &none : MemAttribs,
                                       Flags | stays, Registration);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipxAcquireMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                                  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_ULONG Flags,
                                  VIPX_REGISTRATION *Registration)
{
    if (acquire_fast(NicHandle, Address, Length, MemAttribs, Flags, Registration)) {
        return VIP_SUCCESS;
    }
    return vipl_guard_enter()
               ? vipl_guard_leave(acquire(NicHandle, Address, Length, MemAttribs, Flags, Registration))
               : VIP_ERROR_NOT_SUPPORTED;
}

static bool release_fast(VIP_NIC_HANDLE NicHandle, const VIPX_REGISTRATION *Registration)
{
    if (Registration == NULL || !enter_fast()) {
        return false;
    }
    bool done = vipl_cache_release_fast(NicHandle, Registration);
    vipl_guard_leave_safe();
    return done;
}

static VIP_RETURN release(VIP_NIC_HANDLE NicHandle, const VIPX_REGISTRATION *Registration)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    struct vipl_nic *nic = Registration == NULL ? NULL : vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = vipl_cache_release(nic, Registration);
    vipl_nic_put(nic);
    return rc;
}

VIP_RETURN VI_CALL VipxReleaseMem(VIP_NIC_HANDLE NicHandle, const VIPX_REGISTRATION *Registration)
{
    if (release_fast(NicHandle, Registration)) {
        return VIP_SUCCESS;
    }
    return vipl_guard_enter() ? vipl_guard_leave(release(NicHandle, Registration)) : VIP_ERROR_NOT_SUPPORTED;
}

static VIP_RETURN forget(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    struct vipl_nic *nic = is_memory(Address, Length) ? vipl_nic_get(NicHandle) : NULL;
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_cache_forget(nic, (uintptr_t)Address, (uintptr_t)Address + Length);
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipxForgetMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length)
{
    return vipl_guard_enter() ? vipl_guard_leave(forget(NicHandle, Address, Length))
                              : VIP_ERROR_NOT_SUPPORTED;
}
