/* SPDX-License-Identifier: MIT */
/*
 * Memory of the RDMA card, `rnic`: DRAM of the function that the port has, in BAR4. Packets move
 * between it and the wire inside of the card.
 *
 * The store moves chunks to and from it through its mapping. Of an emulated card that is memory of
 * this machine. The kernel does not read files into the BAR of a device; an NVMe controller reaches
 * it as it reaches any memory of the bus.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dm/memory.h"
#include "dm/reason.h"
#include "dm/rnic/port_rnic.h"
#include "os/os.h"

#define PAGE 4096U

/* Why the kernel does not move chunks to and from the memory; NULL: it is memory of this
 * machine. */
static const char *on_bus(const struct rnic_pci *pci)
{
    bool is_emulated = strcmp(pci->ops->name, "inproc") == 0 || strcmp(pci->ops->name, "vfio-user") == 0;

    return is_emulated
               ? NULL
               : "the card is hardware, and the kernel moves the data of files to and from main memory "
                 "alone";
}

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int take_memory(struct dm_rnic_card *card, uint64_t bytes, void **at, struct vipl_dm_reason *reason)
{
    uint64_t most = vipl_rnic_query(card->rnic)->dram_bytes;
    int error = bytes > SIZE_MAX
                    ? ENOSPC
                    : vipl_rnic_alloc_memory(card->rnic, (size_t)bytes, VIPL_RNIC_DRAM, card, at);

    if (error == ENOSPC || error == ENOTSUP) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"rnic\": the card has %" PRIu64 " bytes for programs, and not %" PRIu64, most,
                       bytes);
    }
    return error == 0 ? 0 : dm_fail(reason, error, "memory \"rnic\": %s", strerror(error));
}

static int memory_open(const char *argument, uint64_t wanted, struct dm_port *port, struct dm_memory **memory,
                       struct vipl_dm_reason *reason)
{
    struct dm_rnic_card *card = dm_rnic_card_of(port);
    struct dm_memory *made;
    uint64_t bytes;
    void *at = NULL;
    int error;

    if (argument[0] != '\0') {
        return dm_fail(reason, EINVAL, "memory \"rnic\" has no argument: it is of the port's card");
    }
    if (card == NULL) {
        return dm_fail(reason, ENOTSUP, "memory \"rnic\" is of the port's card: it needs a port rnic:DEVICE");
    }
    if (vipl_rnic_access(card->rnic)->device == NULL) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"rnic\": the card has no memory for programs (vipl-rnicd --dram)");
    }
    bytes = wanted != 0 ? wanted
                        : min_bytes(DM_MEMORY_BYTES, vipl_rnic_query(card->rnic)->dram_bytes / PAGE * PAGE);
    error = take_memory(card, bytes, &at, reason);
    if (error != 0) {
        return error;
    }
    made = vipl_zalloc(sizeof(*made));
    if (made == NULL || (uintptr_t)at % PAGE != 0) {
        (void)vipl_rnic_free_memory(card->rnic, card, at);
        vipl_free(made);
        return dm_fail(reason, ENOMEM, "memory \"rnic\": no memory");
    }
    made->kind = &dm_memory_rnic;
    made->base = at;
    made->bytes = bytes;
    made->on_bus = on_bus(vipl_rnic_access(card->rnic));
    snprintf(made->text, sizeof(made->text), "rnic (DRAM of the port's card)");
    *memory = made;
    return 0;
}

/* The card's memory went with the port, which is closed first. */
static void memory_close(struct dm_memory *memory)
{
    vipl_free(memory);
}

const struct dm_memory_kind dm_memory_rnic = {"rnic", false, memory_open, memory_close};
