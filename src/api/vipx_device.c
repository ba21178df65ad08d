/* SPDX-License-Identifier: MIT */
/* Entry points of posix.h: the list of devices, the options of the build, the log. */
#include "base/config.h"
#include "base/config_check.h"
#include "base/guard.h"
#include "base/log.h"
#include "core/device.h"

static VIP_RETURN list_devices(VIPX_DEVICE *Devices, VIP_ULONG *Count)
{
    if (Count == NULL || (Devices == NULL && *Count != 0)) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_config_begin();
    vipl_devices_list(Devices, Count);
    vipl_config_end();
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipxListDevices(VIPX_DEVICE *Devices, VIP_ULONG *Count)
{
    return vipl_guard_enter() ? vipl_guard_leave(list_devices(Devices, Count)) : VIP_ERROR_NOT_SUPPORTED;
}

const char *VI_CALL VipxBuildOptions(void)
{
    return vipl_build_options;
}

static VIP_RETURN set_log_handler(VIPX_LOG_LEVEL Level, VIPX_LOG_HANDLER Handler, VIP_PVOID Context)
{
    if ((unsigned)Level > VIPX_LOG_DEBUG) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_log_set_handler((enum vipl_log_level)Level, Handler, Context);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipxSetLogHandler(VIPX_LOG_LEVEL Level, VIPX_LOG_HANDLER Handler, VIP_PVOID Context)
{
    return vipl_guard_enter() ? vipl_guard_leave(set_log_handler(Level, Handler, Context))
                              : VIP_ERROR_NOT_SUPPORTED;
}
