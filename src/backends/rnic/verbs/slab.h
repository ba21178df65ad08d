/* SPDX-License-Identifier: MIT */
/*
 * An allocator of memory for rings, lists and messages. Blocks are cut from slabs, each of which is
 * mapped for DMA once and kept until the function is closed. The allocator's own data is outside
 * the slabs, because the card can write to a slab.
 */
#ifndef BACKENDS_RNIC_VERBS_SLAB_H
#define BACKENDS_RNIC_VERBS_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rnic/pci/pci.h"
#include "base/list.h"
#include "os/os_mutex.h"

enum { RNIC_BLOCK_SIZES = 6, RNIC_SMALLEST_BLOCK = 64 }; /* 64 to 2,048 bytes: parts of a page */

struct rnic_slabs {
    struct rnic_pci *pci;   /* constant */
    struct vipl_mutex lock; /* rank RNIC_SLAB; guards all below */
    struct vipl_list slabs; /* struct slab.link */
    /* struct page.link: pages that have free blocks of that size */
    struct vipl_list free[RNIC_BLOCK_SIZES];
};

/* A block of a slab. Its size is a power of two, and its address a multiple of the size or of the
 * page size, whichever is smaller. */
struct rnic_block {
    uint8_t *base; /* NULL: none */
    uint64_t iova;
    size_t bytes;
};

void vipl_rnic_slabs_init(struct rnic_slabs *slabs, struct rnic_pci *pci);
/* Frees all slabs, with all blocks. */
void vipl_rnic_slabs_fini(struct rnic_slabs *slabs);

/* Allocates a zeroed block of at least `bytes` bytes. ENOMEM: no memory. EAGAIN: a new slab is
 * needed, and `may_block` is false. */
int vipl_rnic_block_get(struct rnic_slabs *slabs, size_t bytes, bool may_block, struct rnic_block *out);
/* Frees a block. A block whose base is NULL is ignored. */
void vipl_rnic_block_put(struct rnic_slabs *slabs, const struct rnic_block *block);

#endif
