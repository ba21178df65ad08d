/* SPDX-License-Identifier: MIT */
/*
 * A program on a library that was built without sharing and without the emulated card: what would
 * be shared is not supported, the card is no device, and all else is there.
 */
#include <string.h>
#include <vipl/posix.h>

int main(void)
{
    VIP_NIC_HANDLE nic;
    VIP_PVOID memory;

    if (VipxOpenNic(NULL, VIPX_SHAREABLE, &nic) != VIP_ERROR_NOT_SUPPORTED || nic != NULL) {
        return 1;
    }
    if (VipxAllocShared(4096, &memory) != VIP_ERROR_NOT_SUPPORTED || memory != NULL) {
        return 2;
    }
    if (VipxFreeShared(&nic) != VIP_ERROR_NOT_SUPPORTED) {
        return 3;
    }
    if (strstr(VipxBuildOptions(), " rnic_model=off ") == NULL) {
        return 4;
    }
    if (VipOpenNic("rnic:inproc", &nic) != VIP_ERROR_RESOURCE) {
        return 5;
    }
    return VipxOpenNic(NULL, 0, &nic) == VIP_SUCCESS && VipCloseNic(nic) == VIP_SUCCESS ? 0 : 6;
}
