/* SPDX-License-Identifier: MIT */
/*
 * The memory that a card, in another process, may ask this program for. Each mapping has addresses
 * of its own on the bus, also when the same memory is mapped twice. Any thread may call these
 * functions.
 */
#ifndef BACKENDS_RNIC_PCI_MAPS_H
#define BACKENDS_RNIC_PCI_MAPS_H

#include "backends/rnic/pci/iova.h"

struct rnic_maps {
    struct rnic_iova iova;
    /* rank VIPL_RANK_IOVA; guards the tree. May be taken under a connection's lock */
    struct vipl_mutex lock;
    struct vipl_ranges tree; /* struct rnic_mapping */
};

/* A mapping. All fields are constant. */
struct rnic_mapping {
    struct vipl_range range; /* of bus addresses; first */
    uint8_t *memory;         /* of its first byte */
    unsigned access;         /* RNIC_PCI_READ, RNIC_PCI_WRITE or both */
    bool is_slab;            /* the driver's own memory, which is always there */
};

void rnic_maps_init(struct rnic_maps *maps);
/* Forgets all mappings. The caller uses the maps no more. */
void rnic_maps_fini(struct rnic_maps *maps);

/* Gives memory addresses on the bus, which keep the offset within the page. EINVAL: no bytes, or
 * more than there can be. ENOMEM, ENOSPC: no memory or no addresses are left. */
int rnic_maps_add(struct rnic_maps *maps, void *memory, size_t bytes, unsigned access, bool is_slab,
                  uint64_t *iova);
/* Ends the mapping that begins at this address: when this function returns, no thread holds it. */
void rnic_maps_remove(struct rnic_maps *maps, uint64_t iova, size_t bytes);

/*
 * Returns the memory at these addresses, or NULL if some of it is not mapped for this access. The
 * mapping, *held, stays until rnic_maps_release() is called, if the function does not return NULL.
 */
uint8_t *rnic_maps_hold(struct rnic_maps *maps, uint64_t iova, uint64_t bytes, unsigned access,
                        const struct rnic_mapping **held);
void rnic_maps_release(struct rnic_maps *maps);

#endif
