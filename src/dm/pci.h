/* SPDX-License-Identifier: MIT */
/*
 * A PCI function that this process has to itself: its registers, the memory of its BARs, and the
 * memory that it reaches by DMA. The operations are the kernel's VFIO (pci_vfio.c); tests have a
 * function of their own.
 */
#ifndef VIPL_DM_PCI_H
#define VIPL_DM_PCI_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/device_memory.h"

/* "0000:05:00.0" and the end. */
#define DM_PCI_ADDRESS_ROOM 16U

struct dm_pci;

struct dm_pci_ops {
    /* The function is reset, and reaches no memory afterwards. What was mapped is gone. */
    void (*close)(struct dm_pci *pci);
    /* The function may use the bus, and `register_bytes` of BAR0 can be read and written. */
    int (*begin)(struct dm_pci *pci);
    uint32_t (*read)(struct dm_pci *pci, uint32_t offset);
    /* The function sees it after all stores to memory that were made before. */
    void (*write)(struct dm_pci *pci, uint32_t offset, uint32_t value);
    /* Returns 0, or an errno value: the function cannot be reset alone. */
    int (*reset)(struct dm_pci *pci);
    /* The memory of a BAR, for the CPU. ENXIO: there is no such BAR. */
    int (*map_bar)(struct dm_pci *pci, unsigned bar, uint8_t **at, uint64_t *bytes);
    /* Addresses on the bus, a multiple of 4,096, that belong to no memory. */
    int (*take_addresses)(struct dm_pci *pci, uint64_t bytes, uint64_t *bus);
    /* The function may read and write memory of this process, whole pages, by addresses in one
     * piece. EFAULT: this memory cannot be reached. */
    int (*map)(struct dm_pci *pci, void *at, uint64_t bytes, uint64_t *bus);
    /* Zeroed pages of main memory, which are mapped, and stay until the function is closed. */
    int (*take_pages)(struct dm_pci *pci, uint64_t bytes, uint8_t **at, uint64_t *bus);
};

struct dm_pci {
    const struct dm_pci_ops *ops;
    uint32_t register_bytes; /* from begin() on */
};

/* "0000:05:00.0": the text becomes a part of paths, where nothing but an address may get. */
bool dm_pci_is_address(const char *text);
/* By VFIO. `what` the function is, for the reason: "store \"nvme:...\"". */
int dm_pci_open(const char *address, const char *what, struct dm_pci **pci, struct vipl_dm_reason *reason);

#endif
