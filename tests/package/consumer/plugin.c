/* SPDX-License-Identifier: MIT */
/* A plug-in that brings a copy of the library of its own, linked statically into it. */
#include <stddef.h>

#include <vipl/vipl.h>

int plugin_use(void);

__attribute__((visibility("default"))) int plugin_use(void)
{
    VIP_NIC_HANDLE nic;

    if (VipOpenNic(NULL, &nic) != VIP_SUCCESS) {
        return 1;
    }
    return VipCloseNic(nic) == VIP_SUCCESS ? 0 : 2;
}
