/* SPDX-License-Identifier: MIT */
/* A program of somebody else: opens the default device and says what it is. */
#include <stdio.h>

#include <vipl/version.h>
#include <vipl/vipl.h>

int main(void)
{
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;

    if (VipOpenNic(NULL, &nic) != VIP_SUCCESS || VipQueryNic(nic, &attributes) != VIP_SUCCESS) {
        return 1;
    }
    printf("vipl %s, device %s\n", VIPL_VERSION_STRING, attributes.Name);
    return VipCloseNic(nic) == VIP_SUCCESS ? 0 : 1;
}
