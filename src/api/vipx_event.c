/* SPDX-License-Identifier: MIT */
/* Entry point on Windows: events in the place of ready descriptors. */
#include "api/fd.h"
#include "base/guard.h"
#include "os/event.h"
#include "vipl/windows.h"

static VIP_RETURN get_event(VIPX_FD_KIND kind, VIP_PVOID handle, void **event)
{
    int fd;
    if (event == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *event = NULL;
    VIP_RETURN rc = vipl_get_fd(kind, handle, &fd);
    if (rc == VIP_SUCCESS && vipl_fd_event(fd, event) != 0) {
        rc = VIP_ERROR_RESOURCE;
    }
    return rc;
}

VIP_RETURN VI_CALL VipxGetEvent(VIPX_FD_KIND Kind, VIP_PVOID Handle, void **Event)
{
    return vipl_guard_enter() ? vipl_guard_leave(get_event(Kind, Handle, Event)) : VIP_ERROR_NOT_SUPPORTED;
}
