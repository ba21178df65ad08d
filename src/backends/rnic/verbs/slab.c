/* SPDX-License-Identifier: MIT */
/* Slabs have pages of 4 KiB; a page is free, part of a larger block, or cut into small blocks of
 * one size. */
#include "backends/rnic/verbs/slab.h"

#include <errno.h>
#include <string.h>

#include "base/lock_rank.h"
#include "os/os.h"

enum {
    PAGE_BYTES = 4096,
    /* of an ordinary slab; a larger block has a slab of its own */
    PAGES = RNIC_PCI_SLAB_BYTES / PAGE_BYTES,
    WHOLE = 0xFF /* page.size of a page that is not cut into blocks */
};

struct slab;

struct page {
    struct vipl_list link; /* slabs->free[size], while it has free blocks */
    struct slab *slab;
    uint64_t used; /* a bit for each of its small blocks */
    uint8_t size;  /* index of the size it is cut into; WHOLE: none */
};

struct slab {
    struct vipl_list link; /* slabs->slabs */
    struct rnic_pci_slab memory;
    uint32_t pages;     /* PAGES, or 0: it is one block as a whole */
    uint32_t free_from; /* no page below it is free */
    uint32_t taken[PAGES / 32];
    struct page page[];
};

void vipl_rnic_slabs_init(struct rnic_slabs *slabs, struct rnic_pci *pci)
{
    slabs->pci = pci;
    vipl_mutex_init(&slabs->lock, VIPL_RANK_RNIC_SLAB);
    vipl_list_init(&slabs->slabs);
    for (unsigned i = 0; i < RNIC_BLOCK_SIZES; i++) {
        vipl_list_init(&slabs->free[i]);
    }
}

static void slab_free(struct rnic_slabs *slabs, struct slab *slab)
{
    slabs->pci->ops->free_slab(slabs->pci, &slab->memory);
    vipl_free(slab);
}

void vipl_rnic_slabs_fini(struct rnic_slabs *slabs)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(&slabs->slabs)) != NULL) {
        slab_free(slabs, VIPL_CONTAINER(link, struct slab, link));
    }
}

/* A new slab, on no list; NULL: no memory. No lock is held: the system is asked, and perhaps
 * another process. */
static struct slab *slab_new(struct rnic_slabs *slabs, size_t bytes, uint32_t pages)
{
    struct slab *slab = vipl_zalloc(sizeof(*slab) + pages * sizeof(slab->page[0]));
    if (slab == NULL) {
        return NULL;
    }
    if (slabs->pci->ops->slab(slabs->pci, bytes, &slab->memory) != 0) {
        vipl_free(slab);
        return NULL;
    }
    slab->pages = pages;
    for (uint32_t i = 0; i < pages; i++) {
        vipl_list_init(&slab->page[i].link);
        slab->page[i].slab = slab;
        slab->page[i].size = WHOLE;
    }
    return slab;
}

/* --- runs of pages --- */

static bool is_taken(const struct slab *slab, uint32_t page)
{
    return (slab->taken[page / 32] >> page % 32 & 1) != 0;
}

static void mark(struct slab *slab, uint32_t page, uint32_t count, bool taken)
{
    for (uint32_t i = page; i < page + count; i++) {
        uint32_t bit = UINT32_C(1) << i % 32;
        slab->taken[i / 32] = taken ? slab->taken[i / 32] | bit : slab->taken[i / 32] & ~bit;
    }
}

/* The first of `count` free pages, aligned to their number, or PAGES. */
static uint32_t find_run(struct slab *slab, uint32_t count)
{
    while (slab->free_from < slab->pages && is_taken(slab, slab->free_from)) {
        slab->free_from++;
    }
    for (uint32_t first = (slab->free_from + count - 1) / count * count; first + count <= slab->pages;
         first += count) {
        uint32_t i = 0;
        while (i < count && !is_taken(slab, first + i)) {
            i++;
        }
        if (i == count) {
            return first;
        }
    }
    return PAGES;
}

static bool get_run(struct rnic_slabs *slabs, uint32_t count, struct slab **slab, uint32_t *page)
{
    for (struct vipl_list *l = slabs->slabs.next; l != &slabs->slabs; l = l->next) {
        *slab = VIPL_CONTAINER(l, struct slab, link);
        *page = find_run(*slab, count);
        if (*page < PAGES) {
            mark(*slab, *page, count, true);
            return true;
        }
    }
    return false;
}

static void put_run(struct slab *slab, uint32_t page, uint32_t count)
{
    mark(slab, page, count, false);
    slab->free_from = page < slab->free_from ? page : slab->free_from;
}

static void set_block(struct rnic_block *out, const struct slab *slab, size_t offset, size_t bytes)
{
    out->base = slab->memory.base + offset;
    out->iova = slab->memory.iova + offset;
    out->bytes = bytes;
}

/* --- small blocks --- */

static size_t size_bytes(unsigned size)
{
    return (size_t)RNIC_SMALLEST_BLOCK << size;
}

static uint64_t all_used(unsigned size)
{
    return UINT64_MAX >> (64 - PAGE_BYTES / size_bytes(size));
}

static unsigned lowest_free(uint64_t used)
{
    unsigned i = 0;
    while ((used >> i & 1) != 0) {
        i++;
    }
    return i;
}

static bool get_small(struct rnic_slabs *slabs, unsigned size, struct rnic_block *out)
{
    struct vipl_list *pages = &slabs->free[size];
    struct slab *slab;
    uint32_t number;
    if (vipl_list_empty(pages)) {
        if (!get_run(slabs, 1, &slab, &number)) {
            return false;
        }
        slab->page[number].size = (uint8_t)size;
        slab->page[number].used = 0;
        vipl_list_append(pages, &slab->page[number].link);
    }
    struct page *page = VIPL_CONTAINER(pages->next, struct page, link);
    unsigned block = lowest_free(page->used);
    page->used |= UINT64_C(1) << block;
    if (page->used == all_used(size)) {
        vipl_list_remove(&page->link);
    }
    set_block(out, page->slab, (size_t)(page - page->slab->page) * PAGE_BYTES + block * size_bytes(size),
              size_bytes(size));
    return true;
}

static void put_small(struct rnic_slabs *slabs, struct slab *slab, uint32_t number, size_t offset)
{
    struct page *page = &slab->page[number];
    if (page->used == all_used(page->size)) {
        vipl_list_append(&slabs->free[page->size], &page->link);
    }
    page->used &= ~(UINT64_C(1) << offset / size_bytes(page->size));
    if (page->used == 0) {
        vipl_list_remove(&page->link);
        page->size = WHOLE;
        put_run(slab, number, 1);
    }
}

/* --- blocks --- */

static size_t round_up(size_t bytes)
{
    size_t power = RNIC_SMALLEST_BLOCK;
    while (power < bytes) {
        power *= 2;
    }
    return power;
}

static bool get_from(struct rnic_slabs *slabs, size_t bytes, struct rnic_block *out)
{
    struct slab *slab;
    uint32_t page;
    if (bytes < PAGE_BYTES) {
        unsigned size = 0;
        while (size_bytes(size) < bytes) {
            size++;
        }
        return get_small(slabs, size, out);
    }
    if (!get_run(slabs, (uint32_t)(bytes / PAGE_BYTES), &slab, &page)) {
        return false;
    }
    set_block(out, slab, (size_t)page * PAGE_BYTES, bytes);
    return true;
}

static int get_whole(struct rnic_slabs *slabs, size_t bytes, struct rnic_block *out)
{
    struct slab *slab = slab_new(slabs, bytes, 0);
    if (slab == NULL) {
        return ENOMEM;
    }
    vipl_mutex_lock(&slabs->lock);
    vipl_list_append(&slabs->slabs, &slab->link);
    vipl_mutex_unlock(&slabs->lock);
    set_block(out, slab, 0, bytes);
    return 0;
}

static int get_with_new_slab(struct rnic_slabs *slabs, size_t bytes, struct rnic_block *out)
{
    struct slab *slab = slab_new(slabs, RNIC_PCI_SLAB_BYTES, PAGES);
    if (slab == NULL) {
        return ENOMEM;
    }
    vipl_mutex_lock(&slabs->lock);
    vipl_list_append(&slabs->slabs, &slab->link);
    (void)get_from(slabs, bytes, out); /* a new slab has it */
    vipl_mutex_unlock(&slabs->lock);
    return 0;
}

int vipl_rnic_block_get(struct rnic_slabs *slabs, size_t bytes, bool may_block, struct rnic_block *out)
{
    size_t power = round_up(bytes);
    int error = 0;
    if (power > RNIC_PCI_SLAB_BYTES) {
        error = may_block ? get_whole(slabs, power, out) : EAGAIN;
    } else {
        vipl_mutex_lock(&slabs->lock);
        bool found = get_from(slabs, power, out);
        vipl_mutex_unlock(&slabs->lock);
        if (!found) {
            error = may_block ? get_with_new_slab(slabs, power, out) : EAGAIN;
        }
    }
    if (error == 0) {
        memset(out->base, 0, out->bytes);
    }
    return error;
}

static struct slab *slab_of(struct rnic_slabs *slabs, const uint8_t *base)
{
    struct vipl_list *l = slabs->slabs.next;
    struct slab *slab = VIPL_CONTAINER(l, struct slab, link);
    while ((size_t)((uintptr_t)base - (uintptr_t)slab->memory.base) >= slab->memory.bytes) {
        l = l->next;
        slab = VIPL_CONTAINER(l, struct slab, link);
    }
    return slab;
}

void vipl_rnic_block_put(struct rnic_slabs *slabs, const struct rnic_block *block)
{
    struct slab *whole = NULL;
    if (block->base == NULL) {
        return;
    }
    vipl_mutex_lock(&slabs->lock);
    struct slab *slab = slab_of(slabs, block->base);
    size_t offset = (size_t)(block->base - slab->memory.base);
    uint32_t page = (uint32_t)(offset / PAGE_BYTES);
    if (slab->pages == 0) {
        vipl_list_remove(&slab->link);
        whole = slab;
    } else if (block->bytes < PAGE_BYTES) {
        put_small(slabs, slab, page, offset % PAGE_BYTES);
    } else {
        put_run(slab, page, (uint32_t)(block->bytes / PAGE_BYTES));
    }
    vipl_mutex_unlock(&slabs->lock);
    if (whole != NULL) {
        slab_free(slabs, whole);
    }
}
