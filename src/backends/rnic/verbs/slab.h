/* SPDX-License-Identifier: MIT */
/*
 * Memory for rings, lists and messages: blocks that are cut from slabs, which are mapped for DMA
 * once each. What is known about the blocks lies elsewhere, because the card may write to a slab.
 * Slabs are kept until the function is closed.
 */
#ifndef BACKENDS_RNIC_VERBS_SLAB_H
#define BACKENDS_RNIC_VERBS_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rnic/pci/pci.h"
#include "base/list.h"
#include "os/os_mutex.h"

enum { RNIC_BLOCK_SIZES = 6, RNIC_SMALLEST_BLOCK = 64 }; /* 64 to 2,048 bytes: below a page */

struct rnic_slabs {
    struct rnic_pci *pci;   /* constant */
    struct vipl_mutex lock; /* rank RNIC_SLAB; guards all below */
    struct vipl_list slabs; /* struct slab.link */
    /* struct page.link: pages that have free blocks of that size */
    struct vipl_list free[RNIC_BLOCK_SIZES];
};

/* Some bytes of a slab; a power of two, and aligned to it as far as a page is. */
struct rnic_block {
    uint8_t *base; /* NULL: none */
    uint64_t iova;
    size_t bytes;
};

void vipl_rnic_slabs_init(struct rnic_slabs *slabs, struct rnic_pci *pci);
void vipl_rnic_slabs_fini(struct rnic_slabs *slabs); /* all blocks go too */

/* Zeroed bytes, as many as asked for or more. ENOMEM. May ask the system for a slab, but without
 * `may_block`: EAGAIN then. */
int vipl_rnic_block_get(struct rnic_slabs *slabs, size_t bytes, bool may_block, struct rnic_block *out);
/* none: nothing */
void vipl_rnic_block_put(struct rnic_slabs *slabs, const struct rnic_block *block);

#endif
