/* SPDX-License-Identifier: MIT */
/* alloc_memory: device memory. The first gap that is large enough is taken. */
#include "backends/rnic/verbs/memory.h"

#include <errno.h>

#include "backends/rnic/verbs/function.h"
#include "base/list.h"
#include "base/lock_rank.h"
#include "os/os.h"

enum { UNIT = RNIC_MEMORY_GRANULE }; /* blocks begin and end at its multiples */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void vipl_rnic_memory_init(struct rnic_memory *memory, const struct rnic_pci *pci, uint32_t dram,
                           uint32_t sram)
{
    uint64_t mapped = pci->device == NULL ? 0 : pci->device_bytes / UNIT * UNIT;
    uint64_t dram_end = min_u64(dram, mapped);
    uint64_t sram_end = min_u64((uint64_t)dram + sram, mapped);
    *memory = (struct rnic_memory){.base = pci->device,
                                   .kinds = {{0, dram_end, 0}, {dram_end, sram_end, dram_end}}};
    vipl_mutex_init(&memory->lock, VIPL_RANK_RNIC_SLAB);
    vipl_ranges_init(&memory->taken);
}

static struct rnic_memory_block *block_of(struct vipl_range *range)
{
    return VIPL_CONTAINER(range, struct rnic_memory_block, range);
}

void vipl_rnic_memory_fini(struct rnic_memory *memory)
{
    struct vipl_range *range;
    while ((range = vipl_ranges_at_or_after(&memory->taken, 0)) != NULL) {
        vipl_ranges_remove(&memory->taken, range);
        vipl_free(block_of(range));
    }
}

/* Takes the first gap of `bytes`, a multiple of UNIT. */
static bool take_gap_locked(struct rnic_memory *memory, struct rnic_memory_kind *kind, uint64_t bytes,
                            struct vipl_range *range)
{
    uint64_t first = kind->lowest;
    while (kind->end - first >= bytes) {
        const struct vipl_range *next = vipl_ranges_at_or_after(&memory->taken, first);
        if (next == NULL || next->first >= first + bytes) {
            range->first = first;
            range->last = first + bytes - 1;
            if (first == kind->lowest) {
                kind->lowest = first + bytes;
            }
            return vipl_ranges_add(&memory->taken, range);
        }
        if (first == kind->lowest && next->first == first) {
            kind->lowest = next->last + 1;
        }
        first = next->last + 1;
    }
    return false;
}

static void free_block_locked(struct rnic_memory *memory, struct rnic_memory_block *block)
{
    struct rnic_memory_kind *kind = &memory->kinds[VIPL_RNIC_DRAM];
    if (block->range.first >= kind->end) {
        kind = &memory->kinds[VIPL_RNIC_SRAM];
    }
    kind->lowest = min_u64(kind->lowest, block->range.first);
    vipl_ranges_remove(&memory->taken, &block->range);
    vipl_free(block);
}

int vipl_rnic_alloc_memory(struct vipl_rnic *rnic, size_t bytes, enum vipl_rnic_memory which,
                           const void *owner, void **out)
{
    struct rnic_memory *memory = &rnic->memory;
    struct rnic_memory_kind *kind = &memory->kinds[which];
    if (kind->end == kind->first) {
        return ENOTSUP;
    }
    if (vipl_rnic_is_dead(rnic)) {
        return ENODEV;
    }
    if (bytes > kind->end - kind->first) {
        return ENOSPC;
    }
    struct rnic_memory_block *block = vipl_zalloc(sizeof(*block));
    if (block == NULL) {
        return ENOMEM;
    }
    block->owner = owner;
    vipl_mutex_lock(&memory->lock);
    bool taken = take_gap_locked(memory, kind, ((uint64_t)bytes + UNIT - 1) / UNIT * UNIT, &block->range);
    uint64_t first = block->range.first;
    vipl_mutex_unlock(&memory->lock);
    if (!taken) {
        vipl_free(block);
        return ENOSPC;
    }
    *out = memory->base + first;
    return 0;
}

/* The block that includes an address; NULL: none. */
static struct rnic_memory_block *find_block_locked(const struct rnic_memory *memory, const void *address)
{
    uintptr_t base = (uintptr_t)memory->base, at = (uintptr_t)address;
    if (base == 0 || at < base) {
        return NULL;
    }
    struct vipl_range *range = vipl_ranges_at_or_after(&memory->taken, at - base);
    return range != NULL && range->first <= at - base ? block_of(range) : NULL;
}

int vipl_rnic_free_memory(struct vipl_rnic *rnic, const void *owner, const void *address)
{
    struct rnic_memory *memory = &rnic->memory;
    if (memory->base == NULL) {
        return ENOTSUP;
    }
    vipl_mutex_lock(&memory->lock);
    struct rnic_memory_block *block = find_block_locked(memory, address);
    bool found = block != NULL && block->owner == owner &&
                 memory->base + block->range.first == (const uint8_t *)address;
    int error = !found ? ENOENT : block->registered > 0 ? EBUSY : 0;
    if (error == 0) {
        free_block_locked(memory, block);
    }
    vipl_mutex_unlock(&memory->lock);
    return error;
}

void vipl_rnic_free_memory_of(struct vipl_rnic *rnic, const void *owner)
{
    struct rnic_memory *memory = &rnic->memory;
    vipl_mutex_lock(&memory->lock);
    struct vipl_range *range = vipl_ranges_at_or_after(&memory->taken, 0);
    while (range != NULL) {
        uint64_t after = range->last + 1;
        struct rnic_memory_block *block = block_of(range);
        if (block->owner == owner && block->registered > 0) {
            block->owner = NULL;
        } else if (block->owner == owner) {
            free_block_locked(memory, block);
        }
        range = vipl_ranges_at_or_after(&memory->taken, after);
    }
    vipl_mutex_unlock(&memory->lock);
}

/* --- registrations --- */

struct rnic_memory_block *vipl_rnic_memory_hold(struct rnic_memory *memory, const void *address, size_t bytes,
                                                uint64_t *offset)
{
    vipl_mutex_lock(&memory->lock);
    struct rnic_memory_block *block = find_block_locked(memory, address);
    if (block != NULL) {
        uint64_t first = (uintptr_t)address - (uintptr_t)memory->base;
        if (bytes - 1 <= block->range.last - first) {
            *offset = first;
            block->registered++;
        } else {
            block = NULL;
        }
    }
    vipl_mutex_unlock(&memory->lock);
    return block;
}

void vipl_rnic_memory_release(struct rnic_memory *memory, struct rnic_memory_block *block)
{
    vipl_mutex_lock(&memory->lock);
    if (--block->registered == 0 && block->owner == NULL) {
        free_block_locked(memory, block);
    }
    vipl_mutex_unlock(&memory->lock);
}
