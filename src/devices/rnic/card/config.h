/* SPDX-License-Identifier: MIT */
/* PCI configuration space. */
#ifndef DEVICES_RNIC_CARD_CONFIG_H
#define DEVICES_RNIC_CARD_CONFIG_H

#include "devices/rnic/card/state.h"

enum {
    RNIC_PCI_MEMORY = 2, /* of the command register */
    RNIC_PCI_BUS_MASTER = 4,
    RNIC_MSIX_ENABLE = 0x8000, /* of MSI-X message control */
    RNIC_MSIX_MASK_ALL = 0x4000
};

uint32_t rnic_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes);
/* True: what was written asks for a reset of the function. */
bool rnic_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes, uint32_t value);
/* Configuration space as after power-up. */
void rnic_config_reset(struct rnic_fn *f);

#endif
