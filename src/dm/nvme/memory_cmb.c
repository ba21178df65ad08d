/* SPDX-License-Identifier: MIT */
/*
 * The memory buffer of an NVMe controller, `cmb:ADDRESS`: memory inside of the controller, behind
 * one of its BARs. Its own commands reach it by an address that we choose; other functions of the
 * bus reach it by its BAR, as far as the IOMMU lets them.
 */
#include "dm/nvme/memory_cmb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/nvme/shared.h"
#include "dm/reason.h"

static const char by_dma[] = "the kernel moves the data of files to and from main memory alone";

struct cmb {
    struct dm_memory base;
    struct dm_nvme *nvme;
    uint64_t bus;  /* for the controller's commands */
    uint32_t size; /* CMBSZ */
};

/* Where the controller says that the buffer is. */
struct place {
    unsigned bar;
    uint64_t offset;
    uint64_t bytes;
};

static uint32_t read_register(const struct dm_nvme *nvme, uint32_t offset)
{
    return nvme->pci->ops->read(nvme->pci, offset);
}

static void write_register(const struct dm_nvme *nvme, uint32_t offset, uint32_t value)
{
    nvme->pci->ops->write(nvme->pci, offset, value);
}

static int find_place(struct cmb *cmb, const char *address, struct place *place,
                      struct vipl_dm_reason *reason)
{
    const struct dm_nvme *nvme = cmb->nvme;
    uint32_t location;
    uint64_t unit;

    if (NVME_CAP_CMBS(nvme->cap_high) == 0) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"cmb:%s\": the controller has no memory buffer, or is older than NVMe 1.4",
                       address);
    }
    write_register(nvme, NVME_CMBMSC, NVME_CMBMSC_REGISTERS);
    location = read_register(nvme, NVME_CMBLOC);
    cmb->size = read_register(nvme, NVME_CMBSZ);
    if (NVME_CMBSZ_SZ(cmb->size) == 0 || NVME_CMBSZ_UNIT(cmb->size) > 6) {
        return dm_fail(reason, ENOTSUP, "memory \"cmb:%s\": the controller's memory buffer has no bytes",
                       address);
    }
    unit = (uint64_t)DM_NVME_PAGE << 4 * NVME_CMBSZ_UNIT(cmb->size);
    place->bar = NVME_CMBLOC_BIR(location);
    place->offset = NVME_CMBLOC_OFST(location) * unit;
    place->bytes = NVME_CMBSZ_SZ(cmb->size) * unit;
    return 0;
}

static int map_place(struct cmb *cmb, const char *address, const struct place *place,
                     struct vipl_dm_reason *reason)
{
    struct dm_pci *pci = cmb->nvme->pci;
    uint8_t *at = NULL;
    uint64_t bytes = 0;
    int error = pci->ops->map_bar(pci, place->bar, &at, &bytes);

    if (error != 0) {
        return dm_fail(reason, error, "memory \"cmb:%s\": BAR %u cannot be mapped: %s", address, place->bar,
                       strerror(error));
    }
    if (place->offset > bytes || place->bytes > bytes - place->offset) {
        return dm_fail(reason, ENODEV,
                       "memory \"cmb:%s\": the controller's memory buffer is outside of BAR %u", address,
                       place->bar);
    }
    cmb->base.base = at + place->offset;
    return 0;
}

/* The upper half first: the store to the lower one makes the address valid. */
static int place_buffer(struct cmb *cmb, const char *address, uint64_t bytes, struct vipl_dm_reason *reason)
{
    struct dm_pci *pci = cmb->nvme->pci;
    int error = pci->ops->take_addresses(pci, bytes, &cmb->bus);

    if (error != 0) {
        return dm_fail(reason, error, "memory \"cmb:%s\": no address on the bus for it", address);
    }
    write_register(cmb->nvme, NVME_CMBMSC + 4, (uint32_t)(cmb->bus >> 32));
    write_register(cmb->nvme, NVME_CMBMSC, (uint32_t)cmb->bus | NVME_CMBMSC_REGISTERS | NVME_CMBMSC_SPACE);
    if ((read_register(cmb->nvme, NVME_CMBSTS) & NVME_CMBSTS_BAD_ADDRESS) != 0) {
        return dm_fail(reason, ENOTSUP, "memory \"cmb:%s\": the controller refuses its address", address);
    }
    return 0;
}

static int prepare_buffer(struct cmb *cmb, const char *address, uint64_t wanted,
                          struct vipl_dm_reason *reason)
{
    struct place place = {0, 0, 0};
    int error = find_place(cmb, address, &place, reason);

    if (error == 0 && wanted > place.bytes) {
        error = dm_fail(reason, ENOTSUP,
                        "memory \"cmb:%s\": the controller has %" PRIu64 " bytes of it, and not %" PRIu64,
                        address, place.bytes, wanted);
    }
    if (error == 0) {
        error = map_place(cmb, address, &place, reason);
    }
    if (error == 0) {
        error = place_buffer(cmb, address, place.bytes, reason);
    }
    if (error != 0) {
        return error;
    }
    cmb->base.bytes = wanted != 0 ? wanted : place.bytes < DM_MEMORY_BYTES ? place.bytes : DM_MEMORY_BYTES;
    dm_clear_words(cmb->base.base, cmb->base.bytes); /* of its last user */
    return 0;
}

static void cmb_close(struct dm_memory *memory)
{
    dm_nvme_give(((struct cmb *)memory)->nvme, false);
    free(memory);
}

int dm_nvme_cmb_open(struct dm_nvme *nvme, const char *address, uint64_t bytes, struct dm_memory **memory,
                     struct vipl_dm_reason *reason)
{
    struct cmb *cmb = calloc(1, sizeof(*cmb));
    int error;

    if (cmb == NULL) {
        dm_nvme_give(nvme, false);
        return dm_fail(reason, ENOMEM, "memory \"cmb:%s\": no memory", address);
    }
    cmb->base.kind = &dm_memory_cmb;
    cmb->base.on_bus = by_dma;
    cmb->nvme = nvme;
    error = prepare_buffer(cmb, address, bytes, reason);
    if (error != 0) {
        cmb_close(&cmb->base);
        return error;
    }
    snprintf(cmb->base.text, sizeof(cmb->base.text), "cmb:%s (memory buffer of %.40s)", address, nvme->model);
    *memory = &cmb->base;
    return 0;
}

static int cmb_open(const char *argument, uint64_t bytes, struct dm_port *port, struct dm_memory **memory,
                    struct vipl_dm_reason *reason)
{
    struct dm_nvme *nvme = NULL;
    char name[64];
    int error;

    (void)port;
    snprintf(name, sizeof(name), "memory \"cmb:%.40s\"", argument);
    error = dm_nvme_take(argument, name, false, &nvme, reason);
    return error == 0 ? dm_nvme_cmb_open(nvme, argument, bytes, memory, reason) : error;
}

bool dm_nvme_cmb_find(const struct dm_nvme *nvme, const struct dm_memory *memory, uint64_t *bus)
{
    const struct cmb *cmb = (const struct cmb *)memory;

    if (memory->kind != &dm_memory_cmb || cmb->nvme != nvme) {
        return false;
    }
    *bus = cmb->bus;
    return true;
}

bool dm_nvme_cmb_allows(const struct dm_memory *memory, enum dm_direction direction)
{
    uint32_t size = ((const struct cmb *)memory)->size;

    return (direction == DM_READ ? NVME_CMBSZ_READS(size) : NVME_CMBSZ_WRITES(size)) != 0;
}

const struct dm_memory_kind dm_memory_cmb = {"cmb", false, cmb_open, cmb_close};
