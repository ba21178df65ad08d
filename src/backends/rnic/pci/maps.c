/* SPDX-License-Identifier: MIT */
/* Mappings by their bus addresses. A mapping is held by holding the lock. */
#include "backends/rnic/pci/maps.h"

#include <errno.h>

#include "backends/rnic/pci/pci.h"
#include "base/list.h"
#include "base/lock_rank.h"

enum { PAGE = 65536 /* a multiple of every system's page */ };

void rnic_maps_init(struct rnic_maps *maps)
{
    static const struct vipl_span all = {UINT64_C(1) << 32, (UINT64_C(1) << 48) - 1};
    rnic_iova_init(&maps->iova, &all, 1);
    vipl_mutex_init(&maps->lock, VIPL_RANK_IOVA);
    vipl_ranges_init(&maps->tree);
}

void rnic_maps_fini(struct rnic_maps *maps)
{
    while (maps->tree.root != NULL) {
        struct vipl_range *range = maps->tree.root;
        vipl_ranges_remove(&maps->tree, range);
        vipl_free(VIPL_CONTAINER(range, struct rnic_mapping, range));
    }
    rnic_iova_fini(&maps->iova);
}

static uint64_t alignment(size_t bytes)
{
    return bytes >= RNIC_PCI_SLAB_BYTES ? RNIC_PCI_SLAB_BYTES : PAGE;
}

static int take_addresses(struct rnic_maps *maps, const void *memory, size_t bytes, uint64_t *iova)
{
    uint64_t align = alignment(bytes);
    uint64_t lead = (uintptr_t)memory % align;
    uint64_t first;
    int error = bytes == 0 || bytes > SIZE_MAX / 2 ? EINVAL
                                                   : rnic_iova_take(&maps->iova, lead + bytes, align, &first);
    if (error == 0) {
        *iova = first + lead;
    }
    return error;
}

int rnic_maps_add(struct rnic_maps *maps, void *memory, size_t bytes, unsigned access, bool is_slab,
                  uint64_t *iova)
{
    struct rnic_mapping *made = vipl_zalloc(sizeof(*made));
    int error = made == NULL ? ENOMEM : take_addresses(maps, memory, bytes, iova);
    if (error != 0) {
        vipl_free(made);
        return error;
    }
    made->range.first = *iova;
    made->range.last = *iova + (bytes - 1);
    made->memory = memory;
    made->access = access;
    made->is_slab = is_slab;
    vipl_mutex_lock(&maps->lock);
    vipl_ranges_add(&maps->tree, &made->range); /* its addresses are its own */
    vipl_mutex_unlock(&maps->lock);
    return 0;
}

static struct rnic_mapping *find_mapping(const struct rnic_maps *maps, uint64_t iova)
{
    struct vipl_range *range = vipl_ranges_at_or_after(&maps->tree, iova);
    return range == NULL || range->first > iova ? NULL : VIPL_CONTAINER(range, struct rnic_mapping, range);
}

void rnic_maps_remove(struct rnic_maps *maps, uint64_t iova, size_t bytes)
{
    vipl_mutex_lock(&maps->lock);
    struct rnic_mapping *found = find_mapping(maps, iova);
    if (found != NULL) {
        vipl_ranges_remove(&maps->tree, &found->range);
    }
    vipl_mutex_unlock(&maps->lock);
    vipl_free(found);
    rnic_iova_give(&maps->iova, iova / alignment(bytes) * alignment(bytes));
}

uint8_t *rnic_maps_hold(struct rnic_maps *maps, uint64_t iova, uint64_t bytes, unsigned access,
                        const struct rnic_mapping **held)
{
    vipl_mutex_lock(&maps->lock);
    const struct rnic_mapping *m = find_mapping(maps, iova);
    if (m == NULL || (m->access & access) == 0 || bytes > m->range.last - iova + 1) {
        vipl_mutex_unlock(&maps->lock);
        return NULL;
    }
    *held = m;
    return m->memory + (iova - m->range.first);
}

void rnic_maps_release(struct rnic_maps *maps)
{
    vipl_mutex_unlock(&maps->lock);
}
