/* SPDX-License-Identifier: MIT */
/*
 * A card on a machine without an IOMMU: "pci:0000:00:05.0", by the files of its folder in sysfs.
 * The card gets physical addresses, which the kernel's list of this process's pages tells to root.
 * Nothing delivers interrupts, and nothing stops the card: docs/rnic/guest.md says how to keep
 * memory where it is. For virtual machines and for bringing hardware up, not for use beside others.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/pci/pci.h"
#include "base/list.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

enum { PCI_COMMAND = 4, PCI_BUS_MASTER = 4 };
static const uint32_t ALL_ONES = 0xFFFFFFFFu;

/* Mapped memory, whose pages are locked. */
struct locked {
    struct vipl_list link; /* sysfs_pci.locked */
    uintptr_t begin;       /* of whole pages, as the next one */
    uintptr_t end;
};

struct sysfs_pci {
    struct rnic_pci pci;
    int config; /* files; constant after open, as the next five */
    int bar0;
    int bar2;
    int bar4; /* -1: there is none */
    char address[16];
    uint8_t *registers;
    struct vipl_mutex lock;  /* rank RNIC_PCI; guards what follows */
    struct vipl_list locked; /* struct locked.link */
    uint32_t gone;           /* atomic, only set; read by sysfs_is_gone() */
};

static struct sysfs_pci *sysfs_of(struct rnic_pci *pci)
{
    return (struct sysfs_pci *)(void *)pci;
}

/* --- registers --- */

static uint32_t *register_at(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    return (uint32_t *)(void *)((bar == 0 ? sysfs_of(pci)->registers : pci->doorbells) + offset);
}

/* BAR0 is little-endian on every machine. */
static uint32_t little(uint32_t word)
{
    uint8_t bytes[4];
    memcpy(bytes, &word, sizeof(bytes));
    return rnic_get32(bytes, false);
}

static uint32_t read_mapped_word(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    uint32_t word = vipl_load_acquire(register_at(pci, bar, offset));
    return bar == 0 ? little(word) : word;
}

/* Reads of a card that is gone return ones: then the identification reads as ones too. */
static uint32_t sysfs_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    uint32_t value = read_mapped_word(pci, bar, offset);
    if (value == ALL_ONES && read_mapped_word(pci, 0, RNIC_REG_ID) == ALL_ONES) {
        vipl_store_relaxed(&sysfs_of(pci)->gone, 1);
    }
    return value;
}

static void sysfs_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    vipl_store_release(register_at(pci, bar, offset), bar == 0 ? little(value) : value);
}

static uint32_t sysfs_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    uint8_t word[4] = {0, 0, 0, 0};
    return vipl_pci_read(sysfs_of(pci)->config, offset, word, bytes) ? rnic_get32(word, false) : ALL_ONES;
}

static void sysfs_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    uint8_t word[4];
    rnic_put32(word, value, false);
    (void)vipl_pci_write(sysfs_of(pci)->config, offset, word, bytes);
}

/* The kernel preserves configuration space across the reset. */
static int sysfs_reset(struct rnic_pci *pci)
{
    int error = rnic_pci_reset_by_register(pci);
    return error == ETIMEDOUT ? vipl_pci_set(sysfs_of(pci)->address, "reset", "1") : error;
}

/* --- memory --- */

static uintptr_t page_down(uintptr_t address)
{
    return address / vipl_page_bytes() * vipl_page_bytes();
}

static uintptr_t page_up(uintptr_t address)
{
    return page_down(address + (vipl_page_bytes() - 1));
}

static int sysfs_map(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    struct sysfs_pci *sysfs = sysfs_of(pci);
    uintptr_t begin = page_down((uintptr_t)address);
    struct locked *locked = vipl_alloc(sizeof(*locked));
    (void)access; /* nothing enforces it */
    if (locked == NULL) {
        return ENOMEM;
    }
    *locked = (struct locked){.begin = begin, .end = page_up((uintptr_t)address + bytes)};
    vipl_mutex_lock(&sysfs->lock);
    int error = vipl_memory_lock((const void *)begin, locked->end - begin);
    if (error == 0) {
        vipl_list_append(&sysfs->locked, &locked->link);
    }
    vipl_mutex_unlock(&sysfs->lock);
    if (error != 0) {
        vipl_free(locked);
        return error;
    }
    *iova = (uint64_t)(uintptr_t)address; /* only a name: the card is told of pages */
    return 0;
}

/* Up to where the page at `at` and those after it are locked by nothing else; `at`: not this
 * one. */
static uintptr_t free_until_locked(const struct sysfs_pci *sysfs, uintptr_t at, uintptr_t end)
{
    for (struct vipl_list *link = sysfs->locked.next; link != &sysfs->locked; link = link->next) {
        const struct locked *other = VIPL_CONTAINER(link, struct locked, link);
        if (other->begin <= at && at < other->end) {
            return at;
        }
        if (other->begin > at && other->begin < end) {
            end = other->begin;
        }
    }
    return end;
}

static void unlock_pages(struct sysfs_pci *sysfs, uintptr_t at, uintptr_t end)
{
    while (at < end) {
        uintptr_t until = free_until_locked(sysfs, at, end);
        if (until > at) {
            vipl_memory_unlock((const void *)at, until - at);
        }
        at = until > at ? until : at + vipl_page_bytes();
    }
}

static struct locked *find_locked_memory(const struct sysfs_pci *sysfs, uintptr_t begin, uintptr_t end)
{
    for (struct vipl_list *link = sysfs->locked.next; link != &sysfs->locked; link = link->next) {
        struct locked *locked = VIPL_CONTAINER(link, struct locked, link);
        if (locked->begin == begin && locked->end == end) {
            return locked;
        }
    }
    return NULL;
}

static void sysfs_unmap(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    struct sysfs_pci *sysfs = sysfs_of(pci);
    uintptr_t begin = page_down((uintptr_t)iova);
    uintptr_t end = page_up((uintptr_t)iova + bytes);
    vipl_mutex_lock(&sysfs->lock);
    struct locked *locked = find_locked_memory(sysfs, begin, end);
    if (locked != NULL) {
        vipl_list_remove(&locked->link);
        unlock_pages(sysfs, begin, end);
    }
    vipl_mutex_unlock(&sysfs->lock);
    vipl_free(locked);
}

static int pages(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                 size_t *count, size_t *page_bytes)
{
    uintptr_t begin = page_down((uintptr_t)address);
    size_t needed = (page_up((uintptr_t)address + bytes) - begin) / vipl_page_bytes();
    (void)pci;
    if (needed > most) {
        return ENOSPC;
    }
    *count = needed;
    *page_bytes = vipl_page_bytes();
    return vipl_physical_pages((const void *)begin, needed, out);
}

static int sysfs_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    struct rnic_pci_slab made = {.bytes = bytes};
    (void)pci;
    made.base = vipl_dma_pages(bytes, true);
    if (made.base == NULL) {
        vipl_log(VIPL_LOG_ERROR, "rnic: no page of 2 MiB for rings: see vm.nr_hugepages");
        return ENOMEM;
    }
    made.base[0] = 0; /* it is there from now on */
    int error = vipl_memory_lock(made.base, bytes);
    error = error == 0 ? vipl_physical_pages(made.base, 1, &made.iova) : error;
    if (error != 0) {
        vipl_dma_pages_free(made.base, bytes);
        return error;
    }
    *out = made;
    return 0;
}

static void sysfs_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    (void)pci;
    vipl_dma_pages_free(slab->base, slab->bytes);
}

/* --- interrupts: there are none --- */

static int sysfs_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    (void)pci;
    (void)vector;
    return -1;
}

static void sysfs_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    (void)pci;
    (void)vector;
}

static void sysfs_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    (void)pci;
    *fd = -1;
    *ms = -1;
}

static bool sysfs_is_gone(struct rnic_pci *pci)
{
    return vipl_load_relaxed(&sysfs_of(pci)->gone) != 0;
}

/* --- opening and closing --- */

static void close_files(struct sysfs_pci *sysfs)
{
    if (sysfs->registers != NULL) {
        vipl_pci_unmap(sysfs->registers, RNIC_BAR0_BYTES);
    }
    if (sysfs->pci.doorbells != NULL) {
        vipl_pci_unmap(sysfs->pci.doorbells, RNIC_BAR2_BYTES);
    }
    if (sysfs->pci.device != NULL) {
        vipl_pci_unmap(sysfs->pci.device, sysfs->pci.device_bytes);
    }
    vipl_fd_close(sysfs->bar4);
    vipl_fd_close(sysfs->bar2);
    vipl_fd_close(sysfs->bar0);
    vipl_fd_close(sysfs->config);
}

/* The memory is freed only when the card cannot access it any more. */
static void sysfs_close(struct rnic_pci *pci)
{
    struct sysfs_pci *sysfs = sysfs_of(pci);
    struct vipl_list *link;
    sysfs_config_write(pci, PCI_COMMAND, 2,
                       sysfs_config_read(pci, PCI_COMMAND, 2) & ~(uint32_t)PCI_BUS_MASTER);
    while ((link = vipl_list_take(&sysfs->locked)) != NULL) {
        struct locked *locked = VIPL_CONTAINER(link, struct locked, link);
        unlock_pages(sysfs, locked->begin, locked->end);
        vipl_free(locked);
    }
    close_files(sysfs);
    vipl_free(sysfs);
}

static void sysfs_abandon(struct rnic_pci *pci)
{
    (void)pci; /* the child has neither the descriptors nor the mapped BARs */
}

static const struct rnic_pci_ops sysfs_ops = {.name = "sysfs",
                                              .close = sysfs_close,
                                              .abandon = sysfs_abandon,
                                              .read = sysfs_read,
                                              .write = sysfs_write,
                                              .config_read = sysfs_config_read,
                                              .config_write = sysfs_config_write,
                                              .reset = sysfs_reset,
                                              .map = sysfs_map,
                                              .unmap = sysfs_unmap,
                                              .pages = pages,
                                              .slab = sysfs_slab,
                                              .free_slab = sysfs_free_slab,
                                              .interrupt_fd = sysfs_interrupt_fd,
                                              .interrupt_clear = sysfs_interrupt_clear,
                                              .progress = NULL,
                                              .wait_hint = sysfs_wait_hint,
                                              .is_gone = sysfs_is_gone};

/* The registers say how much there is; BAR4 is larger. A card of version 1.0 has none. */
static void map_device_memory(struct sysfs_pci *sysfs)
{
    uint64_t bytes = 0;
    if ((sysfs_read(&sysfs->pci, 0, RNIC_REG_CAPS) & RNIC_CAPS_DEVICE_MEMORY) != 0) {
        bytes = (uint64_t)sysfs_read(&sysfs->pci, 0, RNIC_REG_DRAM_BYTES) +
                sysfs_read(&sysfs->pci, 0, RNIC_REG_SRAM_BYTES);
    }
    if (bytes == 0 || bytes > SIZE_MAX / 2 || vipl_pci_open(sysfs->address, "resource4", &sysfs->bar4) != 0) {
        return;
    }
    sysfs->pci.device = vipl_pci_map(sysfs->bar4, 0, (size_t)bytes);
    sysfs->pci.device_bytes = sysfs->pci.device == NULL ? 0 : (size_t)bytes;
}

static int open_bars(struct sysfs_pci *sysfs)
{
    int error = vipl_pci_open(sysfs->address, "resource0", &sysfs->bar0);
    error = error == 0 ? vipl_pci_open(sysfs->address, "resource2", &sysfs->bar2) : error;
    if (error != 0) {
        return error;
    }
    sysfs->registers = vipl_pci_map(sysfs->bar0, 0, RNIC_BAR0_BYTES);
    sysfs->pci.doorbells = vipl_pci_map(sysfs->bar2, 0, RNIC_BAR2_BYTES);
    if (sysfs->registers == NULL || sysfs->pci.doorbells == NULL) {
        return ENXIO;
    }
    map_device_memory(sysfs);
    return 0;
}

/* A function of another vendor is left alone. */
static int open_function(struct sysfs_pci *sysfs)
{
    unsigned tried = 0;
    int error;
    do {
        error = vipl_pci_open(sysfs->address, "config", &sysfs->config);
    } while (error == EBUSY && rnic_pci_wait_until_free(&tried));
    if (error == 0 &&
        sysfs_config_read(&sysfs->pci, 0, 4) != (RNIC_PCI_VENDOR | (uint32_t)RNIC_PCI_DEVICE << 16)) {
        error = ENXIO;
    }
    error = error == 0 ? vipl_pci_set(sysfs->address, "enable", "1")
                       : error; /* which otherwise a driver of the kernel's does */
    return error == 0 ? open_bars(sysfs) : error;
}

int rnic_pci_sysfs_open(const char *device, struct rnic_pci **out)
{
    const char *address = device + 4;
    if (strncmp(device, "pci:", 4) != 0 || !vipl_pci_is_address(address)) {
        return ENODEV;
    }
    if (vipl_pci_has_iommu(address)) {
        vipl_log(VIPL_LOG_ERROR, "rnic: %s is behind an IOMMU: bind it to vfio-pci", address);
        return ENODEV;
    }
    struct sysfs_pci *sysfs = vipl_zalloc(sizeof(*sysfs));
    if (sysfs == NULL) {
        return ENOMEM;
    }
    sysfs->pci = (struct rnic_pci){
        .ops = &sysfs_ops, .dma = "physical addresses", .linear = false, .keeps_pages = true, .end_fd = -1};
    sysfs->config = sysfs->bar0 = sysfs->bar2 = sysfs->bar4 = -1;
    strcpy(sysfs->address, address); /* is_address(): 12 characters */
    vipl_mutex_init(&sysfs->lock, VIPL_RANK_RNIC_PCI);
    vipl_list_init(&sysfs->locked);
    int error = open_function(sysfs);
    if (error != 0) {
        close_files(sysfs);
        vipl_free(sysfs);
        return error;
    }
    *out = &sysfs->pci;
    return 0;
}
