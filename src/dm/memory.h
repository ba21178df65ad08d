/* SPDX-License-Identifier: MIT */
/*
 * The memory that packets are in. A kind is a table of operations in a file of its own
 * (memory_ram.c, memory_bar.c, memory_p2p.c, nvme/memory_cmb.c, rnic/memory_rnic.c). `base` is
 * where the CPU sees the memory; of memory that is not main memory the CPU writes a few aligned
 * words per packet, and does not read.
 */
#ifndef VIPL_DM_MEMORY_H
#define VIPL_DM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/device_memory.h"

/* The bytes of memory of which nobody has said how much; of a device, if it has as much. */
#define DM_MEMORY_BYTES (UINT64_C(64) << 20)

struct dm_memory;
struct dm_port;

struct dm_memory_kind {
    const char *name;
    bool is_main; /* main memory: the kernel and the CPU may copy from and to it */
    /* `bytes` 0: as the kind has it. `port`: whose packets will be there, or NULL. */
    int (*open)(const char *argument, uint64_t bytes, struct dm_port *port, struct dm_memory **memory,
                struct vipl_dm_reason *reason);
    void (*close)(struct dm_memory *memory);
};

/* Does not change from open to close. */
struct dm_memory {
    const struct dm_memory_kind *kind;
    uint8_t *base; /* at the start of a page */
    uint64_t bytes;
    const char *on_bus; /* why the kernel cannot move the data of files to and from here, or NULL */
    /* Of a device, and only by its physical addresses: files by O_DIRECT, ports behind no IOMMU. */
    bool is_physical;
    char text[96]; /* for --explain */
};

/* What memory is for. */
struct dm_memory_use {
    struct dm_port *port; /* whose packets will be there, or NULL */
    bool by_kernel;       /* the store's chunks are moved by the kernel */
    bool allow_ram;       /* memory that cannot serve is replaced by ram */
};

/* Opens the memory that `name` names, NULL: ram. */
int dm_memory_open(const char *name, uint64_t bytes, const struct dm_memory_use *use,
                   struct dm_memory **memory, struct vipl_dm_reason *reason);
void dm_memory_close(struct dm_memory *memory); /* does nothing for NULL */

extern const struct dm_memory_kind dm_memory_bar;
extern const struct dm_memory_kind dm_memory_cmb;
extern const struct dm_memory_kind dm_memory_p2p;
extern const struct dm_memory_kind dm_memory_ram;
extern const struct dm_memory_kind dm_memory_rnic; /* where the driver of the card is built */

#endif
