/* SPDX-License-Identifier: MIT */
/*
 * Addresses on a bus behind an IOMMU: each piece of memory that is mapped for DMA has a range of its own, also where the same memory is
 * mapped again. Any thread may call.
 */
#ifndef BACKENDS_RNIC_PCI_IOVA_H
#define BACKENDS_RNIC_PCI_IOVA_H

#include "base/ranges.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum { RNIC_IOVA_MAX_SPANS = 16 };

struct rnic_iova {
    struct vipl_span spans[RNIC_IOVA_MAX_SPANS]; /* constant, as the next one: what may be given out */
    unsigned span_count;
    struct vipl_mutex lock;   /* rank RNIC_PCI; guards what follows */
    struct vipl_ranges taken; /* struct vipl_range alone */
    unsigned span;            /* in which the search begins, */
    uint64_t next;            /* and where: what was given back is used again as late as possible */
};

/* Address 0 and what is near it is not given out. */
void rnic_iova_init(struct rnic_iova *iova, const struct vipl_span *spans, unsigned count);
void rnic_iova_fini(struct rnic_iova *iova); /* everything is given back */
/* So many bytes, at a multiple of `align`, a power of two. ENOMEM, ENOSPC: there is no such range. */
int rnic_iova_take(struct rnic_iova *iova, uint64_t bytes, uint64_t align, uint64_t *out);
void rnic_iova_give(struct rnic_iova *iova, uint64_t first);

#endif
