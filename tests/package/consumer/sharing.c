/* SPDX-License-Identifier: MIT */
/* Has shared objects: the library's helper program is found, or is a fork. */
#include <stdio.h>

#include <vipl/posix.h>

int main(void)
{
    VIP_NIC_HANDLE nic;
    VIP_PVOID memory;
    VIP_RETURN rc = VipxOpenNic("loopback", VIPX_SHAREABLE, &nic);

    if (rc == VIP_SUCCESS) {
        rc = VipxAllocShared(100, &memory);
    }
    if (rc == VIP_SUCCESS) {
        rc = VipxFreeShared(memory);
    }
    if (rc == VIP_SUCCESS) {
        rc = VipCloseNic(nic);
    }
    printf("sharing: %s\n", VipxStrError(rc));
    return rc != VIP_SUCCESS && rc != VIP_ERROR_NOT_SUPPORTED;
}
