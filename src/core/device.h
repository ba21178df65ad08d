/* SPDX-License-Identifier: MIT */
/* Devices: opening and closing NIC handles. */
#ifndef VIPL_CORE_DEVICE_H
#define VIPL_CORE_DEVICE_H

#include <stdbool.h>

#include "core/backend.h"
#include "vipl/vipl.h"

/* Before the first object is made: what a forked child is to forget. `handlers`: not with VIPL_ATFORK=0. */
int vipl_device_watch_forks(bool *handlers);
VIP_RETURN vipl_device_open(const char *device, void **handle);
/* Ends all objects of the NIC handle, and waits for the calls that use it. */
VIP_RETURN vipl_device_close(void *handle);

/* As VipxListDevices(); in device_list.c. */
void vipl_devices_list(VIPX_DEVICE *devices, VIP_ULONG *count);
/* Calls for each entry of VIPL_DEVICE_ALIASES, until it returns true, which is returned then. */
bool vipl_device_aliases(bool (*each)(void *arg, const char *alias, const char *device), void *arg);

/* Finds the device's backend: aliases, spellings, default; `name` is what they stand for, *rest the part behind the
 * backend's name. NULL: no such device. */
const struct vipl_backend *vipl_device_find(const char *device, char name[64], const char **rest);

#endif
