/* SPDX-License-Identifier: MIT */
/* Allocates the first gap that is large enough, beginning after the last allocation. */
#include "backends/rnic/pci/iova.h"

#include <errno.h>

#include "base/lock_rank.h"

static const uint64_t MIN = UINT64_C(1) << 21;

void rnic_iova_init(struct rnic_iova *iova, const struct vipl_span *spans, unsigned count)
{
    *iova = (struct rnic_iova){.span_count = 0};
    vipl_mutex_init(&iova->lock, VIPL_RANK_RNIC_PCI);
    vipl_ranges_init(&iova->taken);
    for (unsigned i = 0; i < count && iova->span_count < RNIC_IOVA_MAX_SPANS; i++) {
        struct vipl_span span = {spans[i].first > MIN ? spans[i].first : MIN, spans[i].last};
        if (span.first <= span.last) {
            iova->spans[iova->span_count++] = span;
        }
    }
    iova->next = iova->span_count > 0 ? iova->spans[0].first : 0;
}

void rnic_iova_fini(struct rnic_iova *iova)
{
    struct vipl_range *range;
    while ((range = vipl_ranges_at_or_after(&iova->taken, 0)) != NULL) {
        vipl_ranges_remove(&iova->taken, range);
        vipl_free(range);
    }
}

/* Finds the first free range in [from, span->last]. Returns false if there is none. */
static bool find_free_locked(const struct rnic_iova *iova, const struct vipl_span *span, uint64_t from,
                             uint64_t align, struct vipl_range *range, uint64_t bytes)
{
    for (;;) {
        uint64_t first = (from + (align - 1)) & ~(align - 1);
        if (first < from || first > span->last || span->last - first < bytes - 1) {
            return false;
        }
        const struct vipl_range *next = vipl_ranges_at_or_after(&iova->taken, first);
        if (next == NULL || next->first > first + (bytes - 1)) {
            range->first = first;
            range->last = first + (bytes - 1);
            return true;
        }
        from = next->last + 1;
        if (from == 0) {
            return false;
        }
    }
}

/* Searches from the end of the last allocation to the end of the spans, then all spans again. */
static bool take_range_locked(struct rnic_iova *iova, struct vipl_range *range, uint64_t bytes,
                              uint64_t align)
{
    bool found = false;
    for (unsigned i = 0; !found && i <= iova->span_count; i++) {
        unsigned k = (iova->span + i) % iova->span_count;
        found = find_free_locked(iova, &iova->spans[k], i == 0 ? iova->next : iova->spans[k].first, align,
                                 range, bytes);
        if (found) {
            iova->span = k;
            iova->next = range->last == iova->spans[k].last ? iova->spans[k].first : range->last + 1;
        }
    }
    return found && vipl_ranges_add(&iova->taken, range);
}

int rnic_iova_take(struct rnic_iova *iova, uint64_t bytes, uint64_t align, uint64_t *out)
{
    struct vipl_range *range = vipl_zalloc(sizeof(*range));
    if (range == NULL) {
        return ENOMEM;
    }
    vipl_mutex_lock(&iova->lock);
    bool found = iova->span_count > 0 && bytes > 0 && take_range_locked(iova, range, bytes, align);
    uint64_t first = range->first;
    vipl_mutex_unlock(&iova->lock);
    if (!found) {
        vipl_free(range);
        return ENOSPC;
    }
    *out = first;
    return 0;
}

void rnic_iova_give(struct rnic_iova *iova, uint64_t first)
{
    vipl_mutex_lock(&iova->lock);
    struct vipl_range *range = vipl_ranges_at_or_after(&iova->taken, first);
    bool found = range != NULL && range->first == first;
    if (found) {
        vipl_ranges_remove(&iova->taken, range);
    }
    vipl_mutex_unlock(&iova->lock);
    if (found) {
        vipl_free(range);
    }
}
