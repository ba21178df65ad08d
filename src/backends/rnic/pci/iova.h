/* SPDX-License-Identifier: MIT */
/*
 * Allocates addresses on a bus behind an IOMMU. Each mapping for DMA has a range of its own, also
 * when the same memory is mapped twice. Any thread may call these functions.
 */
#ifndef BACKENDS_RNIC_PCI_IOVA_H
#define BACKENDS_RNIC_PCI_IOVA_H

#include "base/ranges.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum { RNIC_IOVA_MAX_SPANS = 16 };

struct rnic_iova {
    struct vipl_span spans[RNIC_IOVA_MAX_SPANS]; /* constant: the addresses that the bus has */
    unsigned span_count;                         /* constant */
    struct vipl_mutex lock;                      /* rank RNIC_PCI; guards the fields below */
    struct vipl_ranges taken;                    /* struct vipl_range, embedded in nothing */
    unsigned span; /* the span and the address where the next search begins: a range that was */
    uint64_t next; /* given back is used again as late as possible */
};

/* The addresses at and near 0 are never allocated. */
void rnic_iova_init(struct rnic_iova *iova, const struct vipl_span *spans, unsigned count);
/* Gives all ranges back. The caller uses the allocator no more. */
void rnic_iova_fini(struct rnic_iova *iova);
/* Allocates `bytes` addresses that begin at a multiple of `align`, a power of two. ENOMEM: no
 * memory. ENOSPC: no free range is large enough, or no memory for its place in the tree. */
int rnic_iova_take(struct rnic_iova *iova, uint64_t bytes, uint64_t align, uint64_t *out);
void rnic_iova_give(struct rnic_iova *iova, uint64_t first);

#endif
