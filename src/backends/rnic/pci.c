/* SPDX-License-Identifier: MIT */
/* Finds the way to a card that its device name asks for. */
#include "backends/rnic/pci.h"

#include <errno.h>

typedef int opener(const char *device, struct rnic_pci **out);

int rnic_pci_open(const char *device, struct rnic_pci **out)
{
    static opener *const openers[] = {rnic_pci_vfio_open, rnic_pci_sysfs_open, NULL};
    for (unsigned i = 0; openers[i] != NULL; i++) {
        int error = openers[i](device, out);
        if (error != ENODEV) {
            return error;
        }
    }
    return ENODEV;
}
