/* SPDX-License-Identifier: MIT */
/* The list of the devices that can be opened, for VipxListDevices(). */
#include <stdio.h>
#include <string.h>

#include "core/device.h"

struct vipl_device_list {
    VIPX_DEVICE *devices;
    VIP_ULONG room;
    VIP_ULONG count;
    const char *backend;      /* the name of the backend that lists its devices now */
    const char *default_name; /* the device that VipOpenNic(NULL) opens */
    bool has_default;
};

static void add_device(struct vipl_device_list *to, const char *name, const char *text, VIP_UINT32 flags)
{
    if ((flags & VIPX_DEVICE_IS_ALIAS) == 0 && strcmp(name, to->default_name) == 0) {
        flags |= VIPX_DEVICE_IS_DEFAULT;
        to->has_default = true;
    }
    if (to->count < to->room) {
        VIPX_DEVICE *device = &to->devices[to->count];
        memset(device, 0, sizeof(*device));
        snprintf(device->Name, sizeof(device->Name), "%s", name);
        snprintf(device->Text, sizeof(device->Text), "%s", text);
        device->Flags = flags;
    }
    to->count++;
}

void vipl_device_add(struct vipl_device_list *to, const char *device, const char *text)
{
    char name[sizeof(((VIPX_DEVICE *)NULL)->Name)];
    snprintf(name, sizeof(name), "%s%s%s", to->backend, device[0] == '\0' ? "" : ":", device);
    add_device(to, name, text, 0);
}

static bool add_alias(void *arg, const char *alias, const char *device)
{
    char text[sizeof(((VIPX_DEVICE *)NULL)->Text)];
    snprintf(text, sizeof(text), "another name of %s", device);
    add_device(arg, alias, text, VIPX_DEVICE_IS_ALIAS);
    return false;
}

void vipl_devices_list(VIPX_DEVICE *devices, VIP_ULONG *count)
{
    char default_name[64];
    const char *rest;
    struct vipl_device_list list = {.devices = devices, .room = *count, .default_name = default_name};
    (void)vipl_device_find(NULL, default_name, &rest);
    for (size_t i = 0; vipl_backends[i] != NULL; i++) {
        list.backend = vipl_backends[i]->name;
        vipl_backends[i]->list(&list);
    }
    /* no backend lists the device of VIPL_DEVICE, for example an address */
    if (!list.has_default) {
        add_device(&list, default_name, "the setting VIPL_DEVICE", 0);
    }
    (void)vipl_device_aliases(add_alias, &list);
    *count = list.count;
}
