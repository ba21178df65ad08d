/* SPDX-License-Identifier: MIT */
/*
 * A card that the kernel's VFIO gives to this process: "pci:0000:00:05.0". Memory that is mapped is
 * locked by the kernel and has addresses of its own behind the IOMMU; a fork copies it for the
 * child. Registers and doorbells are mapped where the machine can do that, otherwise they are read
 * and written by system calls.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/pci/iova.h"
#include "backends/rnic/pci/pci.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

enum {
    CONFIG_REGION = 7,
    /* of BAR0 that are mapped: all registers, and not the vector table, which is the kernel's */
    REGISTER_BYTES = 4096,
    BAR_REGIONS = 3 /* 0 and 2 are there */
};
static const uint32_t ALL_ONES = 0xFFFFFFFFu;

struct vfio_pci {
    struct rnic_pci pci;
    struct vipl_vfio vfio;     /* constant after open, as the next five */
    uint64_t bar[BAR_REGIONS]; /* where it is in the function's file */
    uint64_t config;
    uint8_t *registers; /* REGISTER_BYTES of BAR0; NULL: not mapped */
    size_t page_bytes;
    int interrupts[RNIC_VECTORS]; /* -1: none */
    struct rnic_iova iova;
    uint32_t gone; /* atomic, only set; read by vfio_is_gone() */
};

static struct vfio_pci *vfio_of(struct rnic_pci *pci)
{
    return (struct vfio_pci *)(void *)pci;
}

static void vfio_close(struct rnic_pci *pci)
{
    struct vfio_pci *vfio = vfio_of(pci);
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        vipl_fd_close(vfio->interrupts[i]);
    }
    if (vfio->registers != NULL) {
        vipl_pci_unmap(vfio->registers, REGISTER_BYTES);
    }
    if (pci->doorbells != NULL) {
        vipl_pci_unmap(pci->doorbells, RNIC_BAR2_BYTES);
    }
    if (pci->device != NULL) {
        vipl_pci_unmap(pci->device, pci->device_bytes);
    }
    vipl_vfio_close(&vfio->vfio); /* the kernel resets the function and ends its maps */
    rnic_iova_fini(&vfio->iova);
    vipl_free(vfio);
}

/* A forked child has neither the library's descriptors nor the mapped BARs. The parent keeps
 * both. */
static void vfio_abandon(struct rnic_pci *pci)
{
    (void)pci;
}

/* --- registers --- */

static bool is_mapped(const struct vfio_pci *vfio, unsigned bar, uint32_t offset)
{
    return bar == 0 && vfio->registers != NULL && offset < REGISTER_BYTES;
}

/* BAR0 is little-endian on every machine; BAR2 has the byte order that the function was given, the
 * processor's. */
static bool is_big(unsigned bar)
{
    const uint16_t one = 1;
    return bar == 2 && rnic_get16((const uint8_t *)&one, true) == 1;
}

static uint32_t read_device_word(struct vfio_pci *vfio, unsigned bar, uint32_t offset)
{
    uint8_t bytes[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    if (is_mapped(vfio, bar, offset)) {
        uint32_t word = vipl_load_acquire((const uint32_t *)(const void *)(vfio->registers + offset));
        memcpy(bytes, &word, sizeof(bytes));
    } else if (!vipl_pci_read(vfio->vfio.device, vfio->bar[bar] + offset, bytes, sizeof(bytes))) {
        return ALL_ONES;
    }
    return rnic_get32(bytes, is_big(bar));
}

/* Reads of a card that is gone return ones: then the identification reads as ones too. */
static uint32_t vfio_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint32_t value = read_device_word(vfio, bar, offset);
    if (value == ALL_ONES && read_device_word(vfio, 0, RNIC_REG_ID) == ALL_ONES) {
        vipl_store_relaxed(&vfio->gone, 1);
    }
    return value;
}

static void vfio_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint8_t bytes[4];
    rnic_put32(bytes, value, is_big(bar));
    if (is_mapped(vfio, bar, offset)) {
        uint32_t word;
        memcpy(&word, bytes, sizeof(word));
        vipl_store_release((uint32_t *)(void *)(vfio->registers + offset),
                           word); /* behind all stores for the card's DMA */
    } else if (!vipl_pci_write(vfio->vfio.device, vfio->bar[bar] + offset, bytes, sizeof(bytes))) {
        vipl_store_relaxed(&vfio->gone, 1);
    }
}

static uint32_t vfio_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint8_t word[4] = {0, 0, 0, 0};
    if (!vipl_pci_read(vfio->vfio.device, vfio->config + offset, word, bytes)) {
        return ALL_ONES;
    }
    return rnic_get32(word, false);
}

static void vfio_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    struct vfio_pci *vfio = vfio_of(pci);
    uint8_t word[4];
    rnic_put32(word, value, false);
    (void)vipl_pci_write(vfio->vfio.device, vfio->config + offset, word, bytes);
}

static int vfio_reset(struct rnic_pci *pci)
{
    int error = rnic_pci_reset_by_register(pci);
    return error == ETIMEDOUT ? vipl_vfio_reset(&vfio_of(pci)->vfio) : error;
}

/* --- memory --- */

/* What the pages of some memory begin and end with. */
static size_t whole_pages(const struct vfio_pci *vfio, uintptr_t address, size_t bytes, size_t *before)
{
    size_t page = vfio->page_bytes;
    *before = address % page;
    return (*before + bytes + page - 1) / page * page;
}

/* Memory that cannot be written is mapped to be read only: the IOMMU then refuses what the card may
 * not do. */
static int map_pages(struct vfio_pci *vfio, void *pages, uint64_t iova, size_t bytes, unsigned access)
{
    bool writable = (access & RNIC_PCI_WRITE) != 0;
    int error = vipl_vfio_map(&vfio->vfio, pages, iova, bytes, writable);
    return error == EFAULT && writable ? vipl_vfio_map(&vfio->vfio, pages, iova, bytes, false) : error;
}

static int vfio_map(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    struct vfio_pci *vfio = vfio_of(pci);
    size_t before;
    size_t whole = whole_pages(vfio, (uintptr_t)address, bytes, &before);
    uint64_t first;
    int error = whole >= bytes ? rnic_iova_take(&vfio->iova, whole, vfio->page_bytes, &first) : EINVAL;
    if (error != 0) {
        return error;
    }
    error = map_pages(vfio, (uint8_t *)address - before, first, whole, access);
    if (error != 0) {
        rnic_iova_give(&vfio->iova, first);
        return error;
    }
    *iova = first + before;
    return 0;
}

static void vfio_unmap(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    struct vfio_pci *vfio = vfio_of(pci);
    size_t before;
    size_t whole = whole_pages(vfio, (uintptr_t)iova, bytes, &before);
    vipl_vfio_unmap(&vfio->vfio, iova - before, whole);
    rnic_iova_give(&vfio->iova, iova - before);
}

static int vfio_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    struct vfio_pci *vfio = vfio_of(pci);
    struct rnic_pci_slab made = {.bytes = bytes};
    int error = rnic_iova_take(&vfio->iova, bytes, RNIC_PCI_SLAB_BYTES, &made.iova);
    if (error != 0) {
        return error;
    }
    made.base = vipl_dma_pages(bytes, false);
    error = made.base == NULL ? ENOMEM : vipl_vfio_map(&vfio->vfio, made.base, made.iova, bytes, true);
    if (error != 0) {
        if (made.base != NULL) {
            vipl_dma_pages_free(made.base, bytes);
        }
        rnic_iova_give(&vfio->iova, made.iova);
        return error;
    }
    *out = made;
    return 0;
}

static void vfio_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    struct vfio_pci *vfio = vfio_of(pci);
    vipl_vfio_unmap(&vfio->vfio, slab->iova, slab->bytes);
    rnic_iova_give(&vfio->iova, slab->iova);
    vipl_dma_pages_free(slab->base, slab->bytes);
}

/* --- interrupts --- */

static int vfio_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    return vfio_of(pci)->interrupts[vector];
}

static void vfio_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    if (vfio_of(pci)->interrupts[vector] >= 0) {
        vipl_event_clear(vfio_of(pci)->interrupts[vector]);
    }
}

static void vfio_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    (void)pci;
    *fd = -1;
    *ms = -1;
}

static bool vfio_is_gone(struct rnic_pci *pci)
{
    return vipl_load_relaxed(&vfio_of(pci)->gone) != 0;
}

static const struct rnic_pci_ops vfio_ops = {.name = "vfio",
                                             .close = vfio_close,
                                             .abandon = vfio_abandon,
                                             .read = vfio_read,
                                             .write = vfio_write,
                                             .config_read = vfio_config_read,
                                             .config_write = vfio_config_write,
                                             .reset = vfio_reset,
                                             .map = vfio_map,
                                             .unmap = vfio_unmap,
                                             .pages = NULL, /* the bus is linear */
                                             .slab = vfio_slab,
                                             .free_slab = vfio_free_slab,
                                             .interrupt_fd = vfio_interrupt_fd,
                                             .interrupt_clear = vfio_interrupt_clear,
                                             .progress = NULL,
                                             .wait_hint = vfio_wait_hint,
                                             .is_gone = vfio_is_gone};

/* --- opening --- */

static int find_regions(struct vfio_pci *vfio)
{
    uint64_t bytes[3] = {0, 0, 0};
    int error = vipl_vfio_region(&vfio->vfio, 0, &vfio->bar[0], &bytes[0]);
    error = error == 0 ? vipl_vfio_region(&vfio->vfio, 2, &vfio->bar[2], &bytes[1]) : error;
    error = error == 0 ? vipl_vfio_region(&vfio->vfio, CONFIG_REGION, &vfio->config, &bytes[2]) : error;
    return error != 0 ? error : bytes[0] >= REGISTER_BYTES && bytes[1] >= RNIC_BAR2_BYTES ? 0 : ENXIO;
}

static int find_addresses(struct vfio_pci *vfio)
{
    struct vipl_span spans[RNIC_IOVA_MAX_SPANS];
    unsigned count;
    int error = vipl_vfio_spans(&vfio->vfio, spans, RNIC_IOVA_MAX_SPANS, &count, &vfio->page_bytes);
    if (error == 0) {
        rnic_iova_init(&vfio->iova, spans, count);
    }
    return error;
}

/* A function of another vendor is left alone. */
static int check_identity(struct vfio_pci *vfio)
{
    uint32_t identity = vfio_config_read(&vfio->pci, 0, 4);
    return identity == (RNIC_PCI_VENDOR | (uint32_t)RNIC_PCI_DEVICE << 16) ? 0 : ENXIO;
}

/* A card of version 1.0 has no BAR4. */
static void map_device_memory(struct vfio_pci *vfio)
{
    uint64_t offset, bytes;
    if (vipl_vfio_region(&vfio->vfio, 4, &offset, &bytes) == 0 && bytes > 0 && bytes <= SIZE_MAX / 2) {
        vfio->pci.device = vipl_pci_map(vfio->vfio.device, offset, (size_t)bytes);
        vfio->pci.device_bytes = vfio->pci.device == NULL ? 0 : (size_t)bytes;
    }
}

static void open_interrupts(struct vfio_pci *vfio)
{
    int error = vipl_vfio_interrupts(&vfio->vfio, vfio->interrupts, RNIC_VECTORS);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "rnic: no interrupts, the card is polled", error);
        for (unsigned i = 0; i < RNIC_VECTORS; i++) {
            vfio->interrupts[i] = -1;
        }
    }
}

int rnic_pci_vfio_open(const char *device, struct rnic_pci **out)
{
    struct vfio_pci *vfio;
    int error = strncmp(device, "pci:", 4) == 0 ? 0 : ENODEV;
    if (error != 0 || (vfio = vipl_zalloc(sizeof(*vfio))) == NULL) {
        return error != 0 ? error : ENOMEM;
    }
    unsigned tried = 0;
    do {
        error = vipl_vfio_open(device + 4, &vfio->vfio);
    } while (error == EBUSY && rnic_pci_wait_until_free(&tried));
    if (error != 0) {
        vipl_free(vfio);
        return error;
    }
    vfio->pci = (struct rnic_pci){
        .ops = &vfio_ops, .dma = "IOMMU", .linear = true, .keeps_pages = true, .end_fd = -1};
    memset(vfio->interrupts, 0xFF, sizeof(vfio->interrupts)); /* -1 */
    error = find_regions(vfio);
    error = error == 0 ? check_identity(vfio) : error;
    error = error == 0 ? find_addresses(vfio) : error;
    if (error != 0) {
        vfio_close(&vfio->pci);
        return error;
    }
    vfio->registers = vipl_pci_map(vfio->vfio.device, vfio->bar[0], REGISTER_BYTES);
    vfio->pci.doorbells = vipl_pci_map(vfio->vfio.device, vfio->bar[2], RNIC_BAR2_BYTES);
    map_device_memory(vfio);
    open_interrupts(vfio);
    *out = &vfio->pci;
    return 0;
}
