/* SPDX-License-Identifier: MIT */
/* Regions, in an open-addressed table of pointers with the handle as the key; and protection
 * tags. */
#include "core/mem.h"

#include "base/handle.h"
#include "base/log.h"
#include "core/nic.h"
#include "core/queue.h"
#include "core/vi.h"
#include "os/os.h"
#include "os/os_compiler.h"

enum { FIRST_BITS = 6, FIRST_CAPACITY = 1 << FIRST_BITS, RANDOM_BITS = 24 };

static struct vipl_pool region_pool = VIPL_POOL_INIT(region_pool, struct vipl_region, free, NULL);

static struct vipl_pool ptag_pool = VIPL_POOL_INIT(ptag_pool, struct vipl_ptag, nic_link, NULL);

static struct vipl_region tombstone; /* has handle 0, which no look-up searches for */

VIPL_COLD bool vipl_mem_look_up(struct vipl_mem *mem, struct vipl_recent *recent, VIP_MEM_HANDLE handle,
                                uint64_t address, uint64_t bytes, uint32_t tag)
{
    /* The epoch is read before the look-up; pairs with begin_epoch(). */
    uint32_t epoch = vipl_load_acquire(&mem->epoch);
    const struct vipl_region *region = vipl_mem_find(mem, handle);
    bool covered =
        region != NULL && vipl_region_has(region, address, bytes) && vipl_region_has_tag(region, tag);
    if (covered) {
        *recent = (struct vipl_recent){handle, epoch, (uint64_t)(uintptr_t)region->address,
                                       (uint64_t)region->bytes};
    }
    return covered;
}

uint64_t vipl_mem_reach(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address, uint32_t tag)
{
    struct vipl_region *region = vipl_mem_find(mem, handle);
    if (region == NULL || !vipl_region_has(region, address, 0) || !vipl_region_has_tag(region, tag)) {
        return 0;
    }
    return region->bytes - (address - (uint64_t)(uintptr_t)region->address);
}

enum vipl_mem_fault vipl_mem_fault(struct vipl_mem *mem, VIP_MEM_HANDLE handle, uint64_t address,
                                   uint64_t bytes, uint32_t tag, uint32_t rights)
{
    struct vipl_region *region = vipl_mem_find(mem, handle);
    if (region == NULL) {
        return VIPL_MEM_UNKNOWN;
    }
    if (!vipl_region_has_tag(region, tag)) {
        return VIPL_MEM_OTHER_TAG;
    }
    if (!vipl_region_has(region, address, bytes)) {
        return bytes > 0 && address > UINT64_MAX - (bytes - 1) ? VIPL_MEM_WRAPS : VIPL_MEM_OUTSIDE;
    }
    return vipl_region_has_rights(region, rights) ? VIPL_MEM_NO_FAULT : VIPL_MEM_NO_RIGHT;
}

/* --- readers --- */

void vipl_mem_init(struct vipl_mem *mem)
{
    vipl_mutex_init(&mem->changing, VIPL_RANK_REGIONS);
    vipl_mutex_init(&mem->lock, VIPL_RANK_MEM);
    vipl_list_init(&mem->readers);
    mem->epoch = 1;
}

VIPL_COLD void vipl_queue_enlist_reader(struct vipl_queue *q)
{
    struct vipl_mem *mem = &q->vi->nic->mem;
    vipl_mutex_lock(&mem->lock);
    if (vipl_list_empty(&q->reading)) { /* otherwise end_epoch() still waits, see next_reader() */
        vipl_list_append(&mem->readers, &q->reading);
    }
    q->reading_epoch = mem->epoch;
    vipl_mutex_unlock(&mem->lock);
}

void vipl_queue_delist_reader(struct vipl_queue *q)
{
    if (q->reading_epoch == 0) {
        return; /* the queue never was on the list */
    }
    struct vipl_mem *mem = &q->vi->nic->mem;
    vipl_mutex_lock(&mem->lock);
    vipl_list_remove(&q->reading);
    q->reading_epoch = 0;
    vipl_mutex_unlock(&mem->lock);
}

/* Begins a new epoch, and moves the readers of the old epoch to `former`. */
static void begin_epoch(struct vipl_mem *mem, struct vipl_list *former)
{
    vipl_mutex_lock(&mem->lock);
    uint32_t next = mem->epoch + 1 == 0 ? 1 : mem->epoch + 1;
    vipl_store_release(&mem->epoch, next); /* pairs with vipl_mem_look_up(), vipl_queue_reads() */
    vipl_list_replace(&mem->readers, former);
    vipl_list_init(&mem->readers);
    vipl_mutex_unlock(&mem->lock);
}

/* Takes the next reader of the old epoch off `former`; NULL: none is left. A queue that found
 * itself on `former` when it began to read in the new epoch goes to the list of the new epoch now.
 * The VI of the queue may end meanwhile, but its lock stays a lock. */
static struct vipl_queue *next_reader(struct vipl_mem *mem, struct vipl_list *former)
{
    vipl_mutex_lock(&mem->lock);
    struct vipl_list *link = vipl_list_take(former);
    struct vipl_queue *q = link == NULL ? NULL : VIPL_CONTAINER(link, struct vipl_queue, reading);
    if (q != NULL && q->reading_epoch == mem->epoch) {
        vipl_list_append(&mem->readers, &q->reading);
    }
    vipl_mutex_unlock(&mem->lock);
    return q;
}

/* Ends an epoch, after the table or a region has been changed. When end_epoch() returns, no
 * transfer uses a result of a look-up of the old epoch. The NIC's lock is held, so one epoch ends
 * at a time. */
static void end_epoch(struct vipl_mem *mem)
{
    struct vipl_list former;
    struct vipl_queue *q;
    begin_epoch(mem, &former);
    bool seen = vipl_barrier_everywhere();
    while ((q = next_reader(mem, &former)) != NULL) {
        vipl_biased_pass(&q->lock, seen);
    }
}

/* --- the table --- */

static void insert_region(struct vipl_region_table *table, struct vipl_region *region)
{
    uint32_t i = vipl_region_first_slot(table, region->handle);
    while (table->slots[i] != NULL) {
        i = vipl_region_next_slot(table, i);
    }
    vipl_store_ptr(&table->slots[i], region); /* pairs with vipl_region_find_in() */
}

/* Makes room for one more region: a table is at most half full, including tombstones. *outgrown is
 * the table that was replaced, or NULL; look-ups may still use it. */
static bool reserve_locked(struct vipl_mem *mem, struct vipl_region_table **outgrown)
{
    struct vipl_region_table *old = mem->table;
    if (old != NULL && (mem->used + 1) * 2 <= old->capacity) {
        return true;
    }
    uint32_t capacity = FIRST_CAPACITY;
    uint32_t shift = 32 - FIRST_BITS;
    while (capacity < (mem->live + 1) * 4) {
        capacity *= 2;
        shift--;
    }
    struct vipl_region_table *table = vipl_zalloc(sizeof(*table) + capacity * sizeof(table->slots[0]));
    if (table == NULL) {
        return false;
    }
    table->capacity = capacity;
    table->shift = shift;
    for (uint32_t i = 0; old != NULL && i < old->capacity; i++) {
        if (old->slots[i] != NULL && old->slots[i] != &tombstone) {
            insert_region(table, old->slots[i]);
        }
    }
    mem->used = mem->live;
    vipl_store_ptr(&mem->table, table); /* pairs with vipl_mem_find() */
    *outgrown = old;
    return true;
}

void vipl_mem_fini(struct vipl_mem *mem)
{
    struct vipl_region_table *table = mem->table;
    for (uint32_t i = 0; table != NULL && i < table->capacity; i++) {
        struct vipl_region *region = table->slots[i];
        if (region != NULL && region != &tombstone) {
            vipl_store_relaxed(&region->handle, 0);
            vipl_pool_put(&region_pool, region);
        }
    }
    vipl_free(table);
}

/* Makes a new handle. The low bits are random, so that a peer cannot guess the handle. The highest
 * bits count registrations: a number comes again only after as many registrations as they can
 * count. */
static VIP_RETURN new_handle_locked(struct vipl_mem *mem, VIP_MEM_HANDLE *out)
{
    VIP_MEM_HANDLE handle;
    mem->generation++;
    do {
        if (vipl_entropy(&handle, sizeof(handle)) != 0) {
            return VIP_ERROR_RESOURCE;
        }
        handle = (handle & ((1u << RANDOM_BITS) - 1)) | mem->generation << RANDOM_BITS;
    } while (handle == 0 || handle == 0xFFFFFFFFu || vipl_mem_find(mem, handle) != NULL);
    *out = handle;
    return VIP_SUCCESS;
}

static VIP_RETURN check_mem_attributes(struct vipl_nic *nic, const VIP_MEM_ATTRIBUTES *attributes)
{
    bool read = attributes->EnableRdmaRead != VIP_FALSE;
    return read && nic->limits.rdma_read_levels == 0 ? VIP_INVALID_RDMAREAD : VIP_SUCCESS;
}

uint32_t vipl_mem_rights(const VIP_MEM_ATTRIBUTES *attributes)
{
    return (attributes->EnableRdmaWrite != VIP_FALSE ? VIPL_RIGHT_RDMA_WRITE : 0u) |
           (attributes->EnableRdmaRead != VIP_FALSE ? VIPL_RIGHT_RDMA_READ : 0u);
}

static struct vipl_region_params params_of(const struct vipl_region *region, uint32_t tag, uint32_t rights)
{
    struct vipl_region_params params = {
        .address = region->address,
        .bytes = region->bytes,
        .handle = region->handle,
        .tag = tag,
        .rdma_write = (rights & VIPL_RIGHT_RDMA_WRITE) != 0,
        .rdma_read = (rights & VIPL_RIGHT_RDMA_READ) != 0,
    };
    return params;
}

/* Puts the region into the table under its handle: from now on look-ups find it. */
static void publish_region_locked(struct vipl_mem *mem, struct vipl_region *region, VIP_MEM_HANDLE handle)
{
    vipl_store_relaxed(&region->handle, handle);
    insert_region(mem->table, region);
}

/* Makes room for the region, within the limits, and puts it into the table under a random handle,
 * unless the backend chooses handles. The NIC's lock is held. */
static VIP_RETURN enter_region(struct vipl_nic *nic, struct vipl_region *region)
{
    struct vipl_mem *mem = &nic->mem;
    struct vipl_region_table *outgrown = NULL;
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    VIP_MEM_HANDLE handle = 0;
    vipl_mutex_lock(&mem->lock);
    if (mem->live < nic->limits.max_regions && region->bytes <= nic->limits.max_register_bytes - mem->bytes &&
        reserve_locked(mem, &outgrown)) {
        rc = nic->ops->chooses_handles ? VIP_SUCCESS : new_handle_locked(mem, &handle);
    }
    if (rc != VIP_SUCCESS) {
        vipl_log(VIPL_LOG_REASON,
                 "%s: no more memory is registered: %u regions, %llu bytes are; %u and %llu are the most",
                 nic->name, (unsigned)mem->live, (unsigned long long)mem->bytes,
                 (unsigned)nic->limits.max_regions, (unsigned long long)nic->limits.max_register_bytes);
    }
    if (rc == VIP_SUCCESS) {
        mem->used++;
        mem->live++;
        mem->bytes += region->bytes;
    }
    if (handle != 0) {
        publish_region_locked(mem, region, handle);
    }
    vipl_mutex_unlock(&mem->lock);
    if (outgrown != NULL) {
        end_epoch(mem); /* afterwards no look-up uses the old table */
        vipl_free(outgrown);
    }
    return rc;
}

/* Puts the region, for which there is room, into the table under the handle that the backend has
 * chosen. */
static VIP_RETURN enter_chosen_handle(struct vipl_mem *mem, struct vipl_region *region, VIP_MEM_HANDLE handle)
{
    vipl_mutex_lock(&mem->lock);
    bool unique = handle != 0 && handle != 0xFFFFFFFFu && vipl_mem_find(mem, handle) == NULL;
    if (unique) {
        publish_region_locked(mem, region, handle);
    }
    vipl_mutex_unlock(&mem->lock);
    if (!unique) {
        vipl_log(VIPL_LOG_ERROR,
                 "the device chose 0x%x for new memory, which cannot be a handle or is in use",
                 (unsigned)handle);
    }
    return unique ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

/* Gives the reserved room of a region without a handle back. */
static void cancel_region(struct vipl_nic *nic, struct vipl_region *region)
{
    struct vipl_mem *mem = &nic->mem;
    vipl_mutex_lock(&nic->lock);
    vipl_mutex_lock(&mem->lock);
    mem->used--;
    mem->live--;
    mem->bytes -= region->bytes;
    vipl_mutex_unlock(&mem->lock);
    region->ptag->users--;
    vipl_mutex_unlock(&nic->lock);
    vipl_pool_put(&region_pool, region);
}

/* Takes the region out of the table: no later look-up finds it. */
static void remove_region(struct vipl_nic *nic, struct vipl_region *region)
{
    struct vipl_mem *mem = &nic->mem;
    void **slot;
    vipl_mutex_lock(&mem->lock);
    vipl_region_find_in(mem->table, region->handle, &slot);
    vipl_store_ptr(slot, &tombstone);
    vipl_store_relaxed(&region->handle, 0);
    mem->live--;
    mem->bytes -= region->bytes;
    vipl_mutex_unlock(&mem->lock);
}

/* Sets up a region with the tag and the rights of the attributes, and enters it. */
static VIP_RETURN make_region(struct vipl_nic *nic, struct vipl_region *region,
                              const VIP_MEM_ATTRIBUTES *attributes)
{
    VIP_RETURN rc = vipl_ptag_use_locked(nic, attributes->Ptag, &region->ptag);
    if (rc == VIP_SUCCESS) {
        vipl_store_relaxed(&region->tag, region->ptag->number);
        vipl_store_relaxed(&region->rights, vipl_mem_rights(attributes));
        rc = enter_region(nic, region);
        region->ptag->users -= rc == VIP_SUCCESS ? 0 : 1;
    }
    return rc;
}

/* Adds a region, whose handle core has chosen, at the backend. */
static VIP_RETURN add_to_backend(struct vipl_nic *nic, const struct vipl_region *region,
                                 struct vipl_region_params *params)
{
    VIP_RETURN rc = nic->ops->region_add(nic->be, params);
    if (rc != VIP_SUCCESS) {
        vipl_mem_deregister(nic, params->address, params->handle, region->owner);
    }
    return rc;
}

/* Adds a region at the backend, which chooses the handle. No region ends meanwhile: the backend may
 * choose the handle of a region that it has removed, while core still has that region in its
 * table. */
static VIP_RETURN add_with_chosen_handle(struct vipl_nic *nic, struct vipl_region *region,
                                         struct vipl_region_params *params)
{
    vipl_mutex_lock(&nic->mem.changing);
    VIP_RETURN rc = nic->ops->region_add(nic->be, params);
    if (rc == VIP_SUCCESS) {
        rc = enter_chosen_handle(&nic->mem, region, params->handle);
    }
    vipl_mutex_unlock(&nic->mem.changing);
    if (rc != VIP_SUCCESS) {
        cancel_region(nic, region);
    }
    return rc;
}

VIP_RETURN vipl_mem_register(struct vipl_nic *nic, void *address, size_t bytes,
                             const VIP_MEM_ATTRIBUTES *attributes, enum vipl_region_owner owner,
                             VIP_MEM_HANDLE *out)
{
    VIP_RETURN rc = check_mem_attributes(nic, attributes);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    struct vipl_region *region = bytes > nic->limits.max_block_bytes ? NULL : vipl_pool_get(&region_pool);
    if (region == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    region->address = address;
    region->bytes = bytes;
    region->owner = owner;
    vipl_mutex_lock(&nic->lock);
    rc = make_region(nic, region, attributes);
    struct vipl_region_params params = params_of(region, region->tag, region->rights);
    vipl_mutex_unlock(&nic->lock);
    if (rc != VIP_SUCCESS) {
        vipl_pool_put(&region_pool, region);
        return rc;
    }
    rc = nic->ops->chooses_handles ? add_with_chosen_handle(nic, region, &params)
                                   : add_to_backend(nic, region, &params);
    if (rc == VIP_SUCCESS) {
        *out = params.handle;
    }
    return rc;
}

/* Finds the region with that address and that handle; NULL: none. The NIC's lock is held. */
static struct vipl_region *find_exact(struct vipl_nic *nic, const void *address, VIP_MEM_HANDLE handle)
{
    struct vipl_region *region = vipl_mem_find(&nic->mem, handle);
    return region != NULL && region->handle == handle && region->address == address ? region : NULL;
}

/* The same; NULL also if the region is not the owner's. */
static struct vipl_region *find_owned(struct vipl_nic *nic, const void *address, VIP_MEM_HANDLE handle,
                                      enum vipl_region_owner owner)
{
    struct vipl_region *region = find_exact(nic, address, handle);
    return region != NULL && region->owner == owner ? region : NULL;
}

/* Ends a region that no peer can access directly any more. When end_region() returns, no transfer
 * of this process uses the region. */
static void end_region(struct vipl_nic *nic, struct vipl_region *region)
{
    vipl_mutex_lock(&nic->lock);
    remove_region(nic, region);
    region->ptag->users--;
    end_epoch(&nic->mem);
    vipl_mutex_unlock(&nic->lock);
    vipl_pool_put(&region_pool, region);
}

/* The backend removes the region first, and may refuse. No other thread ends or changes the region
 * meanwhile. */
VIP_RETURN vipl_mem_deregister(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                               enum vipl_region_owner owner)
{
    vipl_mutex_lock(&nic->mem.changing);
    vipl_mutex_lock(&nic->lock);
    struct vipl_region *region = find_owned(nic, address, handle, owner);
    vipl_mutex_unlock(&nic->lock);
    VIP_RETURN rc = region == NULL ? VIP_INVALID_PARAMETER : nic->ops->region_remove(nic->be, handle);
    if (rc == VIP_SUCCESS) {
        end_region(nic, region);
    }
    vipl_mutex_unlock(&nic->mem.changing);
    return rc;
}

VIP_RETURN vipl_mem_query(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle, VIP_MEM_ATTRIBUTES *out)
{
    vipl_mutex_lock(&nic->lock);
    struct vipl_region *region = find_exact(nic, address, handle);
    if (region != NULL) {
        out->Ptag = region->ptag->handle;
        out->EnableRdmaWrite = (region->rights & VIPL_RIGHT_RDMA_WRITE) != 0 ? VIP_TRUE : VIP_FALSE;
        out->EnableRdmaRead = (region->rights & VIPL_RIGHT_RDMA_READ) != 0 ? VIP_TRUE : VIP_FALSE;
    }
    vipl_mutex_unlock(&nic->lock);
    return region == NULL ? VIP_INVALID_PARAMETER : VIP_SUCCESS;
}

/* Changes the region at the backend first, which may refuse, and then in core's table. */
static VIP_RETURN change_region(struct vipl_nic *nic, struct vipl_region *region, struct vipl_ptag *ptag,
                                uint32_t rights)
{
    struct vipl_region_params params = params_of(region, ptag->number, rights);
    VIP_RETURN rc = nic->ops->region_change(nic->be, &params);
    vipl_mutex_lock(&nic->lock);
    struct vipl_ptag *unused = ptag;
    if (rc == VIP_SUCCESS) {
        unused = region->ptag;
        region->ptag = ptag;
        vipl_store_relaxed(&region->tag, ptag->number);
        vipl_store_relaxed(&region->rights, rights);
        end_epoch(&nic->mem);
    }
    unused->users--;
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

VIP_RETURN vipl_mem_change(struct vipl_nic *nic, void *address, VIP_MEM_HANDLE handle,
                           const VIP_MEM_ATTRIBUTES *attributes)
{
    VIP_RETURN rc = check_mem_attributes(nic, attributes);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    vipl_mutex_lock(&nic->mem.changing);
    vipl_mutex_lock(&nic->lock);
    struct vipl_region *region = find_owned(nic, address, handle, VIPL_REGION_OF_PROGRAM);
    struct vipl_ptag *ptag = NULL;
    rc = region == NULL ? VIP_INVALID_PARAMETER : vipl_ptag_use_locked(nic, attributes->Ptag, &ptag);
    vipl_mutex_unlock(&nic->lock);
    if (rc == VIP_SUCCESS) {
        rc = change_region(nic, region, ptag, vipl_mem_rights(attributes));
    }
    vipl_mutex_unlock(&nic->mem.changing);
    return rc;
}

/* --- protection tags --- */

VIP_RETURN vipl_ptag_create(struct vipl_nic *nic, void **handle)
{
    struct vipl_ptag *ptag = vipl_pool_get(&ptag_pool);
    if (ptag == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    void *h = vipl_handle_create(VIPL_KIND_PTAG, ptag);
    if (h == NULL) {
        vipl_pool_put(&ptag_pool, ptag);
        return VIP_ERROR_RESOURCE;
    }
    vipl_mutex_lock(&nic->lock);
    bool room = nic->ptag_count < nic->limits.max_ptags && !nic->closing;
    if (room) {
        nic->ptag_count++;
        ptag->nic = nic;
        ptag->number = ++nic->last_tag == 0 ? ++nic->last_tag : nic->last_tag;
        ptag->users = 0;
        vipl_store_ptr(&ptag->handle, h);
        vipl_list_append(&nic->ptags, &ptag->nic_link);
    }
    vipl_mutex_unlock(&nic->lock);
    if (!room) {
        vipl_handle_destroy(h);
        vipl_pool_put(&ptag_pool, ptag);
        return VIP_ERROR_RESOURCE;
    }
    *handle = h;
    return VIP_SUCCESS;
}

/* Finds a live tag of the NIC handle; NULL: none. The NIC's lock is held. */
static struct vipl_ptag *find_tag_locked(struct vipl_nic *nic, void *handle)
{
    struct vipl_ptag *ptag = vipl_handle_find(VIPL_KIND_PTAG, handle);
    return ptag != NULL && vipl_load_ptr(&ptag->handle) == handle && ptag->nic == nic ? ptag : NULL;
}

static void end_tag_locked(struct vipl_nic *nic, struct vipl_ptag *ptag)
{
    vipl_list_remove(&ptag->nic_link);
    nic->ptag_count--;
    vipl_handle_destroy(ptag->handle);
    vipl_store_ptr(&ptag->handle, NULL);
    vipl_pool_put(&ptag_pool, ptag);
}

VIP_RETURN vipl_ptag_destroy(struct vipl_nic *nic, void *handle)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&nic->lock);
    struct vipl_ptag *ptag = find_tag_locked(nic, handle);
    if (ptag == NULL || ptag == nic->default_ptag) {
        rc = VIP_INVALID_PARAMETER;
    } else if (ptag->users > 0) {
        rc = VIP_ERROR_RESOURCE;
    } else {
        end_tag_locked(nic, ptag);
    }
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

VIP_RETURN vipl_ptag_use_locked(struct vipl_nic *nic, void *handle, struct vipl_ptag **out)
{
    struct vipl_ptag *ptag = handle == NULL ? nic->default_ptag : find_tag_locked(nic, handle);
    if (ptag == NULL) {
        return VIP_INVALID_PTAG;
    }
    ptag->users++;
    *out = ptag;
    return VIP_SUCCESS;
}

void vipl_ptag_drop_all(struct vipl_nic *nic)
{
    vipl_mutex_lock(&nic->lock);
    while (!vipl_list_empty(&nic->ptags)) {
        end_tag_locked(nic, VIPL_CONTAINER(nic->ptags.next, struct vipl_ptag, nic_link));
    }
    vipl_mutex_unlock(&nic->lock);
}

void vipl_mem_abandon_pools(void)
{
    vipl_pool_abandon(&region_pool);
    vipl_pool_abandon(&ptag_pool);
}
