/* SPDX-License-Identifier: MIT */
/* Devices: opening and closing NIC handles. */
#ifndef VIPL_CORE_DEVICE_H
#define VIPL_CORE_DEVICE_H

#include <stdbool.h>

#include "core/backend.h"
#include "vipl/vipl.h"

/* Makes forked children forget the objects of the parent. Called before the first object is made.
 * Sets *handlers to false with VIPL_ATFORK=0, when no fork handlers are installed. Returns 0 or an
 * error of the system. */
int vipl_device_watch_forks(bool *handlers);
VIP_RETURN vipl_device_open(const char *device, VIP_ULONG flags, void **handle);
/* Ends all objects of the NIC handle, and waits for the calls that use the NIC handle. */
VIP_RETURN vipl_device_close(void *handle);

/* Implements VipxListDevices(); in device_list.c. */
void vipl_devices_list(VIPX_DEVICE *devices, VIP_ULONG *count);
/* Calls `each` for the entries of VIPL_DEVICE_ALIASES until `each` returns true. Returns true if
 * `each` has. */
bool vipl_device_aliases(bool (*each)(void *arg, const char *alias, const char *device), void *arg);

/* Finds the backend of a device name. `name` gets the name after aliases, old spellings and the
 * default have been replaced, and *rest is the part of `name` after "backend:". NULL: no such
 * device. */
const struct vipl_backend *vipl_device_find(const char *device, char name[64], const char **rest);

#endif
