/* SPDX-License-Identifier: MIT */
/*
 * The addresses that a function of the card uses for memory of this program: each registration gets a range of its own, so that memory may
 * be registered twice, and in parts. A range keeps the offset in pages of any size, and is not used again soon. Any thread may call.
 */
#ifndef BACKENDS_RNIC_IOVA_H
#define BACKENDS_RNIC_IOVA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ranges.h"
#include "os/os_mutex.h"

enum { RNIC_IOVA_MOST_WINDOWS = 16 };

/* Addresses from first to last may be used. */
struct rnic_iova_window {
    uint64_t first;
    uint64_t last;
};

struct rnic_iova {
    struct vipl_mutex lock;  /* rank VIPL_RANK_IOVA */
    struct vipl_ranges used; /* guarded by the lock, as the next one */
    uint64_t next;           /* where to look first */
    unsigned count;          /* constant, as the next one */
    struct rnic_iova_window windows[RNIC_IOVA_MOST_WINDOWS];
};

/* At most RNIC_IOVA_MOST_WINDOWS, in ascending order. */
void rnic_iova_init(struct rnic_iova *iova, const struct rnic_iova_window *windows, unsigned count);
void rnic_iova_fini(struct rnic_iova *iova);

/* ENOSPC: no range is large enough; ENOMEM. `access`: as of rnic_pci_ops.map(). */
int rnic_iova_take(struct rnic_iova *iova, void *address, size_t bytes, unsigned access, uint64_t *out);
void rnic_iova_give(struct rnic_iova *iova, uint64_t address);
/* The memory at an address, if the card has all of it for this access; NULL. */
void *rnic_iova_find(struct rnic_iova *iova, uint64_t address, uint64_t bytes, unsigned access);

#endif
