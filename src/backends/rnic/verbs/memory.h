/* SPDX-License-Identifier: MIT */
/*
 * An allocator of device memory, of which the function has DRAM and behind it SRAM. Its own data is
 * in main memory. A block belongs to an owner, a NIC handle for example. Registered device memory
 * lies within one block, which stays until that registration has ended.
 */
#ifndef BACKENDS_RNIC_VERBS_MEMORY_H
#define BACKENDS_RNIC_VERBS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rnic/pci/pci.h"
#include "base/ranges.h"
#include "os/os_mutex.h"

enum { RNIC_MEMORY_GRANULE = 64 };

/* A block, which begins at a multiple of a granule. */
struct rnic_memory_block {
    struct vipl_range range; /* offsets in device memory; constant */
    /* NULL: the owner has ended, and the last registration frees the block; guarded by
     * rnic_memory.lock, like the next one */
    const void *owner;
    uint32_t registered;
};

/* Memory of one kind: the offsets from `first` to before `end`. */
struct rnic_memory_kind {
    uint64_t first;  /* constant */
    uint64_t end;    /* constant; the same as `first`: there is no such memory */
    uint64_t lowest; /* all below is taken; guarded by rnic_memory.lock */
};

struct rnic_memory {
    uint8_t *base;                    /* constant: where the function's device memory is mapped */
    struct vipl_mutex lock;           /* rank RNIC_SLAB */
    struct rnic_memory_kind kinds[2]; /* VIPL_RNIC_DRAM, VIPL_RNIC_SRAM */
    struct vipl_ranges taken;         /* rnic_memory_block.range; guarded by lock */
};

/* `dram`, `sram`: what the card has, in multiples of a granule. It is cut to what is mapped. */
void vipl_rnic_memory_init(struct rnic_memory *memory, const struct rnic_pci *pci, uint32_t dram,
                           uint32_t sram);
/* Frees all blocks. */
void vipl_rnic_memory_fini(struct rnic_memory *memory);

/* Begins a registration of bytes that lie in one block, which it returns, with the offset of the
 * first byte. NULL: they do not. */
struct rnic_memory_block *vipl_rnic_memory_hold(struct rnic_memory *memory, const void *address, size_t bytes,
                                                uint64_t *offset);
/* Ends it. */
void vipl_rnic_memory_release(struct rnic_memory *memory, struct rnic_memory_block *block);

#endif
