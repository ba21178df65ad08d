/* SPDX-License-Identifier: MIT */
/*
 * "inproc": the model of the card in this process. There is one card; each device that is opened
 * gets a function of its own. The card runs in the calling threads: when a register is written,
 * above all WAKE, and in inproc_progress(). The card therefore sleeps whenever no thread is in this
 * file, and a post is executed before it returns. The card accesses only memory that was mapped.
 *
 * One lock guards the card and the structures below.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/pci/pci.h"
#include "base/config.h"
#include "base/deadline.h"
#include "base/iov.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "base/ranges.h"
#include "devices/rnic/card/card.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "rnic/registers.h"

enum {
    FUNCTIONS = 8,
    ROUNDS = 64, /* of work in one call */
    PAGE = 4096,
    MSIX_CONTROL = 0x42, /* in configuration space */
    MSIX_ENABLE = 0x8000,
    DEVICE_CONTROL = 0x68,
    FUNCTION_RESET = 0x8000,
    VECTOR_CONTROL = 12 /* in an entry of the MSI-X table */
};
static const uint64_t FIRST_IOVA = 0x100000000;
static const uint64_t LAST_IOVA = UINT64_C(1) << 62;

/* Memory that a function may use. */
struct inproc_map {
    struct vipl_range range; /* of IOVAs; first */
    uint8_t *address;        /* of its first byte */
    unsigned access;
    struct vipl_shm slab; /* the memory, if it is a slab: always there; base NULL: the program's */
    /* the program could not write to all of it when it was mapped: the kernel sees what it may
     * do now */
    bool is_checked;
};

struct inproc_function {
    struct rnic_pci pci;  /* first */
    unsigned number;      /* constant */
    struct vipl_shm bar4; /* device memory */
    struct vipl_ranges maps;
    uint64_t next_iova;
    struct vipl_waker wakers[RNIC_VECTORS];
    bool interrupts[RNIC_VECTORS]; /* whose waker is open */
    struct vipl_waker timer;       /* the card has something to do earlier than was said */
    uint64_t promised;             /* when it was said that the card has something to do */
    uint32_t lost; /* atomic, relaxed: a fault has removed or reset it; written under the lock */
};

static struct inproc {
    struct vipl_mutex lock; /* rank RNIC_PCI; guards all below, and the functions */
    struct rnic_card card;
    void *area; /* of area_bytes; NULL: there is no card now */
    size_t area_bytes;
    struct inproc_function *functions[FUNCTIONS];
    uint64_t deadline; /* when the card wants to work by itself */
    bool asleep;
} inproc = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_RNIC_PCI)};

static struct inproc_function *inproc_of(struct rnic_pci *pci)
{
    return (struct inproc_function *)(void *)pci;
}

/* --- what the card may do --- */

/* Returns the map that contains the whole range and allows the access, or NULL. */
static const struct inproc_map *find_mapped(unsigned fn, uint64_t iova, uint32_t bytes, unsigned access)
{
    const struct inproc_function *f = inproc.functions[fn];
    if (f == NULL || bytes == 0) {
        return NULL;
    }
    const struct inproc_map *map = (const void *)vipl_ranges_at_or_after(&f->maps, iova);
    bool inside = map != NULL && map->range.first <= iova && bytes - 1 <= map->range.last - iova;
    return inside && (map->access & access) != 0 ? map : NULL;
}

static uint8_t *memory_of(const struct inproc_map *map, uint64_t iova)
{
    return map->address + (iova - map->range.first);
}

static bool dma_read(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes)
{
    const struct inproc_map *map = find_mapped(fn, iova, bytes, RNIC_PCI_READ);
    (void)context;
    if (map == NULL) {
        return bytes == 0;
    }
    if (map->slab.base != NULL) {
        memcpy(out, memory_of(map, iova), bytes);
        return true;
    }
    return map->is_checked ? vipl_copy_checked(out, memory_of(map, iova), bytes) == 0
                           : vipl_iov_bytes(out, memory_of(map, iova), bytes);
}

static bool dma_write(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes)
{
    const struct inproc_map *map = find_mapped(fn, iova, bytes, RNIC_PCI_WRITE);
    (void)context;
    if (map == NULL) {
        return bytes == 0;
    }
    if (map->slab.base != NULL) {
        memcpy(memory_of(map, iova), in, bytes);
        return true;
    }
    return map->is_checked ? vipl_iov_put_checked(memory_of(map, iova), in, bytes)
                           : vipl_iov_ordered_piece(memory_of(map, iova), in, bytes) == VIPL_IOV_DONE;
}

/* Only rings have published words, and rings lie in slabs. */
static bool dma_publish(void *context, unsigned fn, uint64_t iova, const uint8_t word[4])
{
    const struct inproc_map *map = find_mapped(fn, iova, 4, RNIC_PCI_WRITE);
    uint32_t value;
    (void)context;
    if (map == NULL || map->slab.base == NULL || iova % 4 != 0) {
        return false;
    }
    memcpy(&value, word, sizeof(value));
    vipl_store_release((uint32_t *)(void *)memory_of(map, iova),
                       value); /* pairs with the driver's load of OWNER */
    return true;
}

static void interrupt(void *context, unsigned fn, unsigned vector)
{
    struct inproc_function *f = inproc.functions[fn];
    (void)context;
    if (f != NULL && vector < RNIC_VECTORS && f->interrupts[vector]) {
        vipl_waker_signal(&f->wakers[vector]);
    }
}

static void clear_memory(void *context, unsigned fn)
{
    const struct inproc_function *f = inproc.functions[fn];
    (void)context;
    vipl_shm_clear(f->bar4.base, f->bar4.bytes);
}

/* There is no wire: the card's link is down. */
static void transmit(void *context, const uint8_t *frame, uint32_t bytes)
{
    (void)context;
    (void)frame;
    (void)bytes;
}

static const struct rnic_card_host host = {.dma_read = dma_read,
                                           .dma_write = dma_write,
                                           .dma_publish = dma_publish,
                                           .interrupt = interrupt,
                                           .transmit = transmit,
                                           .clear = clear_memory};

/* --- running the card, under the lock --- */

/* Wakes the threads whose sleep would end after the card's new deadline. */
static void tell_sleepers(void)
{
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        struct inproc_function *f = inproc.functions[i];
        if (f != NULL && inproc.deadline < f->promised) {
            f->promised = inproc.deadline;
            vipl_waker_signal(&f->timer);
        }
    }
}

/* Wakes the threads that sleep on functions which a fault has removed or reset. */
static void tell_if_lost(void)
{
    for (unsigned i = 0; i < FUNCTIONS && rnic_card_has_lost_any(&inproc.card); i++) {
        struct inproc_function *f = inproc.functions[i];
        if (f != NULL && vipl_load_relaxed(&f->lost) == 0 && rnic_card_has_lost(&inproc.card, i)) {
            vipl_store_relaxed(&f->lost, 1);
            vipl_waker_signal(&f->timer);
        }
    }
}

static void run_locked(void)
{
    rnic_card_wake(&inproc.card);
    inproc.asleep = false;
    for (unsigned i = 0; i < ROUNDS && !inproc.asleep; i++) {
        rnic_card_advance(&inproc.card, vipl_now_ns());
        inproc.asleep = rnic_card_sleep(&inproc.card);
    }
    inproc.deadline = rnic_card_deadline(&inproc.card);
    tell_sleepers();
    tell_if_lost();
}

/* --- the access --- */

static uint32_t inproc_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    vipl_mutex_lock(&inproc.lock);
    uint64_t value = rnic_card_bar_read(&inproc.card, inproc_of(pci)->number, bar, offset, 4);
    tell_if_lost();
    vipl_mutex_unlock(&inproc.lock);
    return (uint32_t)value;
}

static void inproc_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    vipl_mutex_lock(&inproc.lock);
    rnic_card_bar_write(&inproc.card, inproc_of(pci)->number, bar, offset, 4, value);
    run_locked();
    vipl_mutex_unlock(&inproc.lock);
}

static uint32_t inproc_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    vipl_mutex_lock(&inproc.lock);
    uint32_t value = rnic_card_config_read(&inproc.card, inproc_of(pci)->number, offset, bytes);
    vipl_mutex_unlock(&inproc.lock);
    return value;
}

static void inproc_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    vipl_mutex_lock(&inproc.lock);
    rnic_card_config_write(&inproc.card, inproc_of(pci)->number, offset, bytes, value);
    run_locked();
    vipl_mutex_unlock(&inproc.lock);
}

static int inproc_reset(struct rnic_pci *pci)
{
    inproc_config_write(pci, DEVICE_CONTROL, 2, inproc_config_read(pci, DEVICE_CONTROL, 2) | FUNCTION_RESET);
    return 0;
}

static void inproc_progress(struct rnic_pci *pci)
{
    (void)pci;
    if (!vipl_mutex_trylock(&inproc.lock)) {
        return; /* another thread lets it work */
    }
    if (!inproc.asleep || inproc.deadline <= vipl_now_ns()) {
        run_locked();
    }
    vipl_mutex_unlock(&inproc.lock);
}

static void inproc_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    struct inproc_function *f = inproc_of(pci);
    vipl_mutex_lock(&inproc.lock);
    vipl_waker_reset(&f->timer);
    f->promised = inproc.asleep ? inproc.deadline : 0;
    *fd = f->timer.fd;
    *ms = vipl_ms_left(f->promised);
    vipl_mutex_unlock(&inproc.lock);
}

static bool inproc_is_gone(struct rnic_pci *pci)
{
    return vipl_load_relaxed(&inproc_of(pci)->lost) != 0;
}

/* --- memory --- */

static uint64_t round_up(uint64_t value)
{
    return (value + PAGE - 1) / PAGE * PAGE;
}

/* IOVAs are allocated in ascending order, with an unmapped page between two maps. */
static int enter_locked(struct inproc_function *f, struct inproc_map *map, size_t bytes)
{
    uint64_t offset = (uintptr_t)map->address % PAGE;
    do {
        uint64_t first = f->next_iova + offset;
        if (LAST_IOVA - first < bytes) {
            f->next_iova = FIRST_IOVA;
            return ENOSPC;
        }
        map->range.first = first;
        map->range.last = first + (bytes - 1);
        f->next_iova = round_up(first + bytes) + PAGE;
    } while (!vipl_ranges_add(&f->maps, &map->range));
    return 0;
}

static struct inproc_map *new_map(uint8_t *address, unsigned access)
{
    struct inproc_map *map = vipl_zalloc(sizeof(*map));
    if (map != NULL) {
        map->address = address;
        map->access = access;
        map->slab.fd = -1;
    }
    return map;
}

static int enter_map(struct inproc_function *f, struct inproc_map *map, size_t bytes, uint64_t *iova)
{
    vipl_mutex_lock(&inproc.lock);
    int error = enter_locked(f, map, bytes);
    *iova = map->range.first;
    vipl_mutex_unlock(&inproc.lock);
    return error;
}

static int inproc_map_dma(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    struct inproc_map *map = new_map(address, access);
    if (map == NULL) {
        return ENOMEM;
    }
    map->is_checked = !vipl_may_write(address, bytes);
    int error = enter_map(inproc_of(pci), map, bytes, iova);
    if (error != 0) {
        vipl_free(map);
    }
    return error;
}

static void inproc_unmap_dma(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    struct inproc_function *f = inproc_of(pci);
    (void)bytes;
    vipl_mutex_lock(&inproc.lock);
    struct inproc_map *map = (void *)vipl_ranges_at_or_after(&f->maps, iova);
    vipl_ranges_remove(&f->maps, &map->range);
    vipl_mutex_unlock(&inproc.lock);
    vipl_shm_release(&map->slab);
    vipl_free(map);
}

static int inproc_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    struct vipl_shm memory = {.fd = -1};
    int error = vipl_shm_create(&memory, "vipl-rnic", bytes);
    if (error != 0) {
        return error;
    }
    vipl_shm_close_fd(&memory);
    struct inproc_map *map = new_map(memory.base, RNIC_PCI_READ | RNIC_PCI_WRITE);
    error = map == NULL ? ENOMEM : enter_map(inproc_of(pci), map, bytes, &out->iova);
    if (error != 0) {
        vipl_free(map);
        vipl_shm_release(&memory);
        return error;
    }
    map->slab = memory;
    out->base = memory.base;
    out->bytes = bytes;
    return 0;
}

static void inproc_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    inproc_unmap_dma(pci, slab->iova, slab->bytes);
}

/* --- interrupts --- */

static int inproc_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    struct inproc_function *f = inproc_of(pci);
    vipl_mutex_lock(&inproc.lock);
    if (!f->interrupts[vector] && vipl_waker_open(&f->wakers[vector]) == 0) {
        uint32_t control = rnic_card_config_read(&inproc.card, f->number, MSIX_CONTROL, 2);
        f->interrupts[vector] = true;
        rnic_card_config_write(&inproc.card, f->number, MSIX_CONTROL, 2, control | MSIX_ENABLE);
        rnic_card_bar_write(&inproc.card, f->number, 0, RNIC_MSIX_TABLE + 16 * vector + VECTOR_CONTROL, 4, 0);
    }
    int fd = f->interrupts[vector] ? f->wakers[vector].fd : -1;
    vipl_mutex_unlock(&inproc.lock);
    return fd;
}

static void inproc_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    vipl_waker_reset(&inproc_of(pci)->wakers[vector]);
}

/* --- the card, from its first function to its last --- */

static void power_down_locked(void)
{
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        if (inproc.functions[i] != NULL) {
            return;
        }
    }
    vipl_unreserve(inproc.area, inproc.area_bytes);
    inproc.area = NULL;
}

/* The settings that make the card or its wire bad. */
static void spoil_locked(void)
{
    char text[512];
    char error[128];
    if (vipl_config_text("VIPL_RNIC_IMPAIR", text, sizeof(text)) &&
        !rnic_card_impair(&inproc.card, text, error, sizeof(error))) {
        vipl_log(VIPL_LOG_ERROR, "VIPL_RNIC_IMPAIR: %s", error);
    }
    if (vipl_config_text("VIPL_RNIC_FAULTS", text, sizeof(text)) &&
        !rnic_card_faults(&inproc.card, text, error, sizeof(error))) {
        vipl_log(VIPL_LOG_ERROR, "VIPL_RNIC_FAULTS: %s", error);
    }
}

static struct rnic_card_config card_config(void)
{
    return (struct rnic_card_config){.functions = FUNCTIONS,
                                     .qps = RNIC_QP_LIMIT,
                                     .cqs = 4096,
                                     .stags = 65536,
                                     .pbl_entries = 4096,
                                     .flows = 256,
                                     .frames = 2048,
                                     .mtu = 9000,
                                     .mac = {0x02, 'V', 'I', 0, 0, 1},
                                     .dram_bytes = 16 << 20,
                                     .sram_bytes = 16 << 10,
                                     /* all of them are this program's */
                                     .raw = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                     .seed = vipl_config_number("VIPL_RNIC_SEED")};
}

static int power_up_locked(void)
{
    struct rnic_card_config config = card_config();
    inproc.area_bytes = rnic_card_bytes(&config);
    inproc.area = vipl_reserve(inproc.area_bytes);
    if (inproc.area == NULL) {
        return ENOMEM;
    }
    rnic_card_init(&inproc.card, inproc.area, &config, &host, NULL);
    rnic_card_link(&inproc.card, false);
    spoil_locked();
    run_locked();
    return 0;
}

/* --- opening and closing --- */

static const struct rnic_pci_ops inproc_ops;

static int attach_locked(struct inproc_function *f)
{
    while (f->number < FUNCTIONS && inproc.functions[f->number] != NULL) {
        f->number++;
    }
    if (f->number == FUNCTIONS) {
        return EBUSY;
    }
    int error = inproc.area == NULL ? power_up_locked() : 0;
    if (error == 0) {
        inproc.functions[f->number] = f;
        rnic_card_attach(&inproc.card, f->number, f->pci.doorbells, f->pci.device);
        run_locked();
    }
    return error;
}

static void free_function(struct inproc_function *f)
{
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        if (f->interrupts[i]) {
            vipl_waker_close(&f->wakers[i]);
        }
    }
    vipl_waker_close(&f->timer);
    vipl_unreserve(f->pci.doorbells, RNIC_BAR2_BYTES);
    vipl_shm_release(&f->bar4);
    vipl_free(f);
}

static int make_memory(struct inproc_function *f)
{
    struct rnic_card_config config = card_config();
    int error = vipl_shm_create_sparse(&f->bar4, "rnic-memory", (size_t)rnic_card_bar4_bytes(&config));
    if (error == 0) {
        vipl_shm_close_fd(&f->bar4);
        f->pci.device = f->bar4.base;
        f->pci.device_bytes = f->bar4.bytes;
    }
    return error;
}

int rnic_pci_inproc_open(const char *device, struct rnic_pci **out)
{
    if (strcmp(device, "inproc") != 0) {
        return ENODEV;
    }
    struct inproc_function *f = vipl_zalloc(sizeof(*f));
    int error = f == NULL ? ENOMEM : vipl_waker_open(&f->timer);
    if (error != 0) {
        vipl_free(f);
        return error;
    }
    f->pci = (struct rnic_pci){.ops = &inproc_ops,
                               .doorbells = vipl_reserve(RNIC_BAR2_BYTES),
                               .dma = "copies in this process",
                               .linear = true,
                               .tells_end = true,
                               .end_fd = -1};
    f->next_iova = FIRST_IOVA;
    vipl_ranges_init(&f->maps);
    f->bar4.fd = -1;
    error = f->pci.doorbells == NULL ? ENOMEM : make_memory(f);
    if (error == 0) {
        vipl_mutex_lock(&inproc.lock);
        error = attach_locked(f);
        vipl_mutex_unlock(&inproc.lock);
    }
    if (error != 0) {
        free_function(f);
        return error;
    }
    *out = &f->pci;
    return 0;
}

static void inproc_close(struct rnic_pci *pci)
{
    struct inproc_function *f = inproc_of(pci);
    struct inproc_map *map;
    vipl_mutex_lock(&inproc.lock);
    rnic_card_detach(&inproc.card, f->number);
    run_locked(); /* its peers are told */
    inproc.functions[f->number] = NULL;
    power_down_locked();
    vipl_mutex_unlock(&inproc.lock);
    while ((map = (void *)vipl_ranges_at_or_after(&f->maps, 0)) != NULL) {
        vipl_ranges_remove(&f->maps, &map->range);
        vipl_shm_release(&map->slab);
        vipl_free(map);
    }
    free_function(f);
}

/* The child has a card of its own, if it opens one. */
static void inproc_abandon(struct rnic_pci *pci)
{
    (void)pci;
    memset(&inproc, 0, sizeof(inproc));
    vipl_mutex_init(&inproc.lock, VIPL_RANK_RNIC_PCI);
}

static const struct rnic_pci_ops inproc_ops = {
    .name = "inproc",
    .close = inproc_close,
    .abandon = inproc_abandon,
    .read = inproc_read,
    .write = inproc_write,
    .config_read = inproc_config_read,
    .config_write = inproc_config_write,
    .reset = inproc_reset,
    .map = inproc_map_dma,
    .unmap = inproc_unmap_dma,
    .slab = inproc_slab,
    .free_slab = inproc_free_slab,
    .interrupt_fd = inproc_interrupt_fd,
    .interrupt_clear = inproc_interrupt_clear,
    .progress = inproc_progress,
    .wait_hint = inproc_wait_hint,
    .is_gone = inproc_is_gone,
};
