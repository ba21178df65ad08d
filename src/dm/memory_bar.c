/* SPDX-License-Identifier: MIT */
/*
 * Memory behind a BAR of any PCI function, `bar:ADDRESS:N`: that of an FPGA, for example. The
 * function is left alone otherwise. A store and a port that move packets by DMA reach the BAR as
 * far as the IOMMU lets them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/memory.h"
#include "dm/pci.h"
#include "dm/reason.h"

static const char by_dma[] = "the kernel moves the data of files to and from main memory alone";

struct bar_memory {
    struct dm_memory base;
    struct dm_pci *pci;
};

/* False: the text is not ADDRESS:N. */
static bool read_name(const char *text, char address[DM_PCI_ADDRESS_ROOM], unsigned *bar)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;

    if (length == 0 || length >= DM_PCI_ADDRESS_ROOM || colon[1] < '0' || colon[1] > '5' ||
        colon[2] != '\0') {
        return false;
    }
    memcpy(address, text, length);
    address[length] = '\0';
    *bar = (unsigned)(colon[1] - '0');
    return true;
}

static void bar_close(struct dm_memory *memory)
{
    struct dm_pci *pci = ((struct bar_memory *)memory)->pci;

    pci->ops->close(pci);
    free(memory);
}

static int take_bar(struct bar_memory *memory, const char *name, unsigned bar, uint64_t wanted,
                    struct vipl_dm_reason *reason)
{
    struct dm_pci *pci = memory->pci;
    uint64_t bytes = 0;
    int error = pci->ops->map_bar(pci, bar, &memory->base.base, &bytes);

    if (error == ENXIO) {
        return dm_fail(reason, ENODEV, "%s: the function has no such BAR", name);
    }
    if (error != 0) {
        return dm_fail(reason, error, "%s: it cannot be mapped: %s", name, strerror(error));
    }
    if (wanted > bytes) {
        return dm_fail(reason, ENOTSUP, "%s: it has %" PRIu64 " bytes, and not %" PRIu64, name, bytes,
                       wanted);
    }
    memory->base.bytes = wanted != 0 ? wanted : bytes < DM_MEMORY_BYTES ? bytes : DM_MEMORY_BYTES;
    dm_clear_words(memory->base.base, memory->base.bytes);
    return 0;
}

static int bar_open(const char *argument, uint64_t wanted, struct dm_port *port, struct dm_memory **out,
                    struct vipl_dm_reason *reason)
{
    char address[DM_PCI_ADDRESS_ROOM];
    struct bar_memory *memory;
    char name[64];
    unsigned bar;
    int error;

    (void)port;
    snprintf(name, sizeof(name), "memory \"bar:%.40s\"", argument);
    if (!read_name(argument, address, &bar)) {
        return dm_fail(reason, EINVAL, "%s is not bar:ADDRESS:N", name);
    }
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return dm_fail(reason, ENOMEM, "%s: no memory", name);
    }
    memory->base.kind = &dm_memory_bar;
    memory->base.on_bus = by_dma;
    error = dm_pci_open(address, name, &memory->pci, reason);
    if (error != 0) {
        free(memory);
        return error;
    }
    error = take_bar(memory, name, bar, wanted, reason);
    if (error != 0) {
        bar_close(&memory->base);
        return error;
    }
    snprintf(memory->base.text, sizeof(memory->base.text), "bar:%.40s (memory behind a BAR)", argument);
    *out = &memory->base;
    return 0;
}

const struct dm_memory_kind dm_memory_bar = {"bar", false, bar_open, bar_close};
