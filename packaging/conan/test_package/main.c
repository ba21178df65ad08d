/* SPDX-License-Identifier: MIT */
/* Opens the devices that a build of the package has. */
#include <stdio.h>

#include <vipl/posix.h>

int main(void)
{
    const char *names[] = {"loopback", "tcp:127.0.0.1"};

    for (int i = 0; i < 2; i++) {
        VIP_NIC_HANDLE nic;
        VIP_RETURN rc = VipOpenNic(names[i], &nic);

        printf("%s: %s\n", names[i], VipxStrError(rc));
        if (rc != VIP_SUCCESS || VipCloseNic(nic) != VIP_SUCCESS) {
            return 1;
        }
    }
    return 0;
}
