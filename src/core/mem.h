/* SPDX-License-Identifier: MIT */
/*
 * Registered memory and protection tags of one NIC handle.
 *
 * Look-ups are on the data path and take no lock of their own: they run under the lock of a queue
 * of the NIC handle. A thread that ends or changes a region publishes that first, and then waits
 * until each such lock that is held has been released. After that no transfer uses the old region,
 * and its record may be reused.
 *
 * Each end or change begins a new epoch of the NIC handle. A queue remembers the results of its
 * last look-ups for one epoch, and puts itself on the list of readers before its first look-up in
 * an epoch: the thread that changes a region waits only for the locks of these queues.
 */
#ifndef VIPL_CORE_MEM_H
#define VIPL_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/pool.h"
#include "core/backend.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "vipl/vipl.h"

struct vipl_nic;

/* A protection tag: a number that regions and VIs share. From the pool; live while `handle` is
 * set. */
struct vipl_ptag {
    struct vipl_list nic_link; /* nic->ptags, guarded by the NIC's lock; in the pool: free link */
    void *handle;              /* atomic; NULL: not a live tag */
    struct vipl_nic *nic;      /* constant while live */
    uint32_t number;           /* constant while live; unique in the NIC handle, never 0 */
    uint32_t users;            /* regions and VIs; guarded by the NIC's lock */
};

enum { VIPL_RIGHT_RDMA_WRITE = 1, VIPL_RIGHT_RDMA_READ = 2 };

/* Whose region it is. The program cannot end or change a region of the cache (cache.h). */
enum vipl_region_owner { VIPL_REGION_OF_PROGRAM, VIPL_REGION_OF_CACHE };

struct vipl_region {
    uint32_t handle;              /* atomic; 0: not live */
    uint32_t rights;              /* atomic */
    uint32_t tag;                 /* atomic: its tag's number */
    unsigned char *address;       /* constant while live */
    size_t bytes;                 /* constant while live */
    enum vipl_region_owner owner; /* constant while live */
    struct vipl_ptag *ptag;       /* guarded by the NIC's lock */
    struct vipl_list free;        /* in the pool */
};

struct vipl_region_table {
    uint32_t capacity; /* a power of two */
    uint32_t shift;    /* 32 - log2(capacity) */
    void *slots[];     /* atomic: struct vipl_region, NULL, or a tombstone, whose handle is 0 */
};

/* The result of a look-up, so that the next look-up of the same handle need not search: most
 * programs use one region again and again. All zero: no result. Guarded by the lock of the queue
 * that has the struct; the region has the tag that the queue's VI uses. */
struct vipl_recent {
    uint32_t handle;
    uint32_t epoch; /* the epoch in which the look-up was made */
    uint64_t start;
    uint64_t bytes;
};

struct vipl_mem {
    /* atomic: counts the regions that have ended or changed; never 0; written under lock. */
    uint32_t epoch;
    /* vipl_queue.reading: queues that look up in this epoch; guarded by lock */
    struct vipl_list readers;
    /* rank REGIONS: held while a region ends or changes, at the backend too */
    struct vipl_mutex changing;
    struct vipl_mutex lock; /* rank MEM: held while the table changes */
    void *table;            /* atomic: struct vipl_region_table; NULL: no region yet */
    uint32_t used;          /* slots that are not NULL or are reserved; guarded by lock */
    uint32_t live;          /* regions, including reserved ones; guarded by lock */
    uint32_t generation;    /* of the last handle; guarded by lock */
    uint64_t bytes;         /* guarded by lock */
};

void vipl_mem_init(struct vipl_mem *mem); /* *mem is zeroed */
void vipl_mem_fini(struct vipl_mem *mem); /* no queue looks up any more */

/* Returns the rights that the attributes give: VIPL_RIGHT_... */
uint32_t vipl_mem_rights(const VIP_MEM_ATTRIBUTES *attributes);
VIP_RETURN vipl_mem_register(struct vipl_nic *nic, void *address, size_t bytes,
                             const VIP_MEM_ATTRIBUTES *attributes, enum vipl_region_owner owner,
                             VIP_MEM_HANDLE *out);
VIP_RETURN vipl_mem_deregister(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                               enum vipl_region_owner owner);
VIP_RETURN vipl_mem_query(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                          VIP_MEM_ATTRIBUTES *out);
VIP_RETURN vipl_mem_change(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                           const VIP_MEM_ATTRIBUTES *attributes);

/* --- look-ups --- */

/* The caller holds the lock of a queue, and has called vipl_queue_reads() for it. Look-ups are
 * inline because they are on the path of each message. */

/* Returns the slot where the search for a handle begins. The multiplication by 2^32 divided by the
 * golden ratio also spreads handles that a device chooses, which may count in any of their bits. */
static inline uint32_t vipl_region_first_slot(const struct vipl_region_table *table, VIP_MEM_HANDLE handle)
{
    return handle * 2654435769u >> table->shift;
}

static inline uint32_t vipl_region_next_slot(const struct vipl_region_table *table, uint32_t slot)
{
    return (slot + 1) & (table->capacity - 1);
}

/* Returns the region of a handle or NULL, and sets *out to the slot. The search ends at an empty
 * slot at the latest: the table is never full. */
static inline struct vipl_region *vipl_region_find_in(struct vipl_region_table *table, VIP_MEM_HANDLE handle,
                                                      void ***out)
{
    for (uint32_t i = vipl_region_first_slot(table, handle);; i = vipl_region_next_slot(table, i)) {
        struct vipl_region *region =
            (struct vipl_region *)vipl_load_ptr(&table->slots[i]); /* pairs with insert() */
        if (region == NULL || vipl_load_relaxed(&region->handle) == handle) {
            *out = &table->slots[i];
            return region;
        }
    }
}

static inline struct vipl_region *vipl_mem_find(struct vipl_mem *mem, VIP_MEM_HANDLE handle)
{
    struct vipl_region_table *table =
        (struct vipl_region_table *)vipl_load_ptr(&mem->table); /* pairs with the table's growth */
    void **slot;
    return table == NULL || handle == 0 ? NULL : vipl_region_find_in(table, handle, &slot);
}

/* The three rules for what a region allows. */

static inline bool vipl_region_has(const struct vipl_region *region, uint64_t address, uint64_t bytes)
{
    /* The offset of an address before the region wraps, and is larger than any region. */
    uint64_t offset = address - (uint64_t)(uintptr_t)region->address;
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

static inline bool vipl_region_has_tag(const struct vipl_region *region, uint32_t tag) /* 0: any */
{
    return tag == 0 || vipl_load_relaxed(&region->tag) == tag;
}

static inline bool vipl_region_has_rights(const struct vipl_region *region, uint32_t rights)
{
    return (vipl_load_relaxed(&region->rights) & rights) == rights;
}

/* Returns true if [address, address + bytes) is in the region of the handle, the region's tag is
 * `tag` (0: any), and the region has all of `rights`. */
static inline bool vipl_mem_covers(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address,
                                   uint64_t bytes, uint32_t tag, uint32_t rights)
{
    const struct vipl_region *region = vipl_mem_find(mem, handle);
    return region != NULL && vipl_region_has(region, address, bytes) && vipl_region_has_tag(region, tag) &&
           vipl_region_has_rights(region, rights);
}

/* Returns how many bytes from `address` on are in the region of the last look-up. Returns 0 if the
 * last look-up was of another handle, or any region has ended or changed since. */
static inline uint64_t vipl_recent_room(const struct vipl_recent *recent, const struct vipl_mem *mem,
                                        VIP_MEM_HANDLE handle, uint64_t address)
{
    uint64_t offset = address - recent->start; /* wraps for an address before the region */
    bool same = recent->handle == handle && recent->epoch == vipl_load_relaxed(&mem->epoch);
    return same && offset <= recent->bytes ? recent->bytes - offset : 0;
}

/* As vipl_mem_covers(), for local memory: rights do not matter. On true *recent is set to the
 * region. */
bool vipl_mem_look_up(struct vipl_mem *mem, struct vipl_recent *recent, VIP_MEM_HANDLE handle,
                      uint64_t address, uint64_t bytes, uint32_t tag);

/* Returns how many bytes from `address` on are in the region of the handle, if the region's tag is
 * `tag` (0: any); otherwise 0. */
uint64_t vipl_mem_reach(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address, uint32_t tag);

/* Returns why vipl_mem_covers() is false for these arguments. */
enum vipl_mem_fault vipl_mem_fault(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address,
                                   uint64_t bytes, uint32_t tag, uint32_t rights);

VIP_RETURN vipl_ptag_create(struct vipl_nic *nic, void **handle);
VIP_RETURN vipl_ptag_destroy(struct vipl_nic *nic, void *handle);
/* Finds a tag and counts one more user of it; NULL: the default tag. VIP_INVALID_PTAG: not a live
 * tag of this NIC handle. The NIC's lock is held. */
VIP_RETURN vipl_ptag_use_locked(struct vipl_nic *nic, void *handle, struct vipl_ptag **out);
void vipl_ptag_drop_all(struct vipl_nic *nic); /* at close */

void vipl_mem_abandon_pools(void);

#endif
