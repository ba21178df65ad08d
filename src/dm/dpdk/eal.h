/* SPDX-License-Identifier: MIT */
/*
 * DPDK's environment (EAL): begun with the first port, and there until the process ends. It takes
 * no huge pages. It probes the devices that ports name, and no others. Addresses
 * that devices get are virtual ones, so that a PCI function needs an IOMMU.
 */
#ifndef VIPL_DM_DPDK_EAL_H
#define VIPL_DM_DPDK_EAL_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/device_memory.h"

/* Begins the environment, and probes a device: the address of a PCI function, or the name of a
 * virtual device with its arguments. Returns 0, or an errno value. */
int dm_eal_open(const char *name, uint16_t *port, struct vipl_dm_reason *reason);

/* Gives the device back. */
void dm_eal_close(uint16_t port);

/* Whether the name is the address of a PCI function. */
bool dm_eal_is_pci(const char *name);

#endif
