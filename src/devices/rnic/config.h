/* SPDX-License-Identifier: MIT */
/* PCI configuration space. */
#ifndef DEVICES_RNIC_CONFIG_H
#define DEVICES_RNIC_CONFIG_H

#include "devices/rnic/state.h"

enum {
    RNIC_PCI_MEMORY = 2, /* of the command register */
    RNIC_PCI_BUS_MASTER = 4,
    RNIC_MSIX_ENABLE = 0x8000, /* of MSI-X message control */
    RNIC_MSIX_MASK_ALL = 0x4000
};

/* Configuration space as after power-up. */
void rnic_config_reset(struct rnic_fn *f);

#endif
