/* SPDX-License-Identifier: MIT */
/*
 * Registered memory and protection tags of one NIC handle.
 *
 * Look-ups are on the data path and take no lock: they run under a queue lock of some VI of this NIC handle. The
 * thread that ends a region or changes it publishes that first, and then takes and releases every such lock once
 * before it returns. So no transfer that saw the old region is under way any more, and its record may be used again.
 * A table that became too small is freed in the same way.
 */
#ifndef VIPL_CORE_MEM_H
#define VIPL_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/pool.h"
#include "core/backend.h"
#include "os/os_mutex.h"
#include "vipl/vipl.h"

struct vipl_nic;

/* A protection tag: a number that regions and VIs share. From the pool; live while `handle` is set. */
struct vipl_ptag {
    struct vipl_list nic_link; /* nic->ptags, guarded by the NIC's lock; in the pool: free link */
    void *handle;              /* atomic; NULL: not a live tag */
    struct vipl_nic *nic;      /* constant while live */
    uint32_t number;           /* constant while live; unique in the NIC handle, never 0 */
    uint32_t users;            /* regions and VIs; guarded by the NIC's lock */
};

enum { VIPL_RIGHT_RDMA_WRITE = 1, VIPL_RIGHT_RDMA_READ = 2 };

struct vipl_region {
    uint32_t handle;        /* atomic; 0: not live */
    uint32_t rights;        /* atomic */
    uint32_t tag;           /* atomic: its tag's number */
    unsigned char *address; /* constant while live */
    size_t bytes;           /* constant while live */
    struct vipl_ptag *ptag; /* guarded by the NIC's lock */
    struct vipl_list free;  /* in the pool */
};

struct vipl_region_table {
    uint32_t capacity; /* a power of two */
    uint32_t shift;    /* 32 less its logarithm */
    void *slots[];     /* struct vipl_region, NULL, or a tombstone; atomic */
};

struct vipl_mem {
    struct vipl_mutex changing; /* rank REGIONS: a region ends or changes, here and at the backend */
    struct vipl_mutex lock;     /* rank MEM: changes of the table */
    void *table;                /* struct vipl_region_table; atomic; NULL: no region yet */
    uint32_t used;              /* slots that are not NULL, or are about to be; guarded by lock */
    uint32_t live;              /* regions, and those about to be; guarded by lock */
    uint32_t generation;        /* of the last handle; guarded by lock */
    uint64_t bytes;             /* guarded by lock */
};

void vipl_mem_fini(struct vipl_mem *mem); /* no reader is left */

VIP_RETURN vipl_mem_register(struct vipl_nic *nic, void *address, size_t bytes,
                             const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *out);
VIP_RETURN vipl_mem_deregister(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle);
VIP_RETURN vipl_mem_query(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                          VIP_MEM_ATTRIBUTES *out);
VIP_RETURN vipl_mem_change(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                           const VIP_MEM_ATTRIBUTES *attributes);

/* Whether [address, address + bytes) lies in the region, its tag is `tag` (0: any) and it has all of
 * `rights`. The caller holds a queue lock of a VI of this NIC handle. */
bool vipl_mem_covers(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address, uint64_t bytes,
                     uint32_t tag, uint32_t rights);

/* How many bytes from `address` on lie in the region, if its tag is `tag` (0: any). As above. */
uint64_t vipl_mem_reach(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address, uint32_t tag);

/* Why vipl_mem_covers() says no. */
enum vipl_mem_fault vipl_mem_fault(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address,
                                   uint64_t bytes, uint32_t tag, uint32_t rights);

VIP_RETURN vipl_ptag_create(struct vipl_nic *nic, void **handle);
VIP_RETURN vipl_ptag_destroy(struct vipl_nic *nic, void *handle);
/* Takes a use of a tag; NULL handle: the default tag. VIP_INVALID_PTAG: not a live tag of this NIC. The
 * NIC's lock is held. */
VIP_RETURN vipl_ptag_use_locked(struct vipl_nic *nic, void *handle, struct vipl_ptag **out);
void vipl_ptag_drop_all(struct vipl_nic *nic); /* at close */

void vipl_mem_abandon_pools(void);

#endif
