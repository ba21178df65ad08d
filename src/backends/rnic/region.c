/* SPDX-License-Identifier: MIT */
/*
 * Registered memory. Each registration is a map of its own and a tag of its own, so that regions
 * may overlap or be registered twice. Memory that the program may not write is not writable for the
 * card either: the way to the card sees to that at each access, or, where it cannot, the tag has
 * the rights that there were when the memory was registered. Memory of the card needs no map.
 */
#include "backends/rnic/rnic.h"

#include <errno.h>

#include "base/log.h"

struct rnic_region {
    struct vipl_list link; /* nic->regions */
    struct vipl_rnic_mr mr;
    unsigned local; /* RNIC_RIGHT_LOCAL_READ_ONLY, or 0 */
};

/* The upper bits of a steering tag are an index, the lower ones are random. */
static struct vipl_list *bucket_of(struct rnic_nic *nic, uint32_t stag)
{
    return &nic->regions[(stag >> 16 ^ stag) % RNIC_REGION_BUCKETS];
}

static struct rnic_region *find_region_locked(struct rnic_nic *nic, uint32_t stag)
{
    struct vipl_list *bucket = bucket_of(nic, stag);
    for (struct vipl_list *l = bucket->next; l != bucket; l = l->next) {
        struct rnic_region *region = VIPL_CONTAINER(l, struct rnic_region, link);
        if (region->mr.stag == stag) {
            return region;
        }
    }
    return NULL;
}

static unsigned rights_of(const struct vipl_region_params *params)
{
    return (params->rdma_write ? RNIC_RIGHT_REMOTE_WRITE : 0u) |
           (params->rdma_read ? RNIC_RIGHT_REMOTE_READ : 0u);
}

static void log_failure(const struct rnic_nic *nic, int error)
{
    if (error == ENOSPC) {
        vipl_log(VIPL_LOG_ERROR, "rnic: the card's table of tags or pages is full: it has %u tags, %u pages",
                 (unsigned)vipl_rnic_query(nic->rnic)->stags,
                 (unsigned)vipl_rnic_query(nic->rnic)->pbl_entries);
    } else {
        vipl_log_os(VIPL_LOG_REASON, "rnic: registering memory", error);
    }
}

VIP_RETURN vipl_rnic_region_add(struct vipl_be_nic *be, struct vipl_region_params *params)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct vipl_rnic_pd pd = {.realm = nic->pd.realm, .domain = params->tag};
    struct rnic_region *region = vipl_zalloc(sizeof(*region));
    if (region == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    bool is_fixed = vipl_rnic_access(nic->rnic)->keeps_pages;
    region->local =
        is_fixed && !vipl_may_write(params->address, params->bytes) ? RNIC_RIGHT_LOCAL_READ_ONLY : 0;
    int error = vipl_rnic_allocate_mr(nic->rnic, &pd, params->address, params->bytes,
                                      rights_of(params) | region->local, &region->mr);
    if (error != 0) {
        log_failure(nic, error);
        vipl_free(region);
        return VIP_ERROR_RESOURCE;
    }
    params->handle = region->mr.stag;
    vipl_mutex_lock(&nic->regions_lock);
    bool ended = nic->regions_ended;
    if (!ended) {
        vipl_list_append(bucket_of(nic, region->mr.stag), &region->link);
    }
    vipl_mutex_unlock(&nic->regions_lock);
    if (ended) {
        (void)vipl_rnic_free_mr(nic->rnic, &region->mr);
        vipl_free(region);
    }
    return ended ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

/* Makes the card forget the memory. A card that is dead accesses no memory. */
static VIP_RETURN free_region_mr(struct rnic_nic *nic, struct rnic_region *region)
{
    int error = vipl_rnic_free_mr(nic->rnic, &region->mr);
    if (error != 0 && error != ENODEV) {
        vipl_log_os(VIPL_LOG_ERROR, "rnic: the card does not end a tag", error);
        return VIP_ERROR_RESOURCE;
    }
    return VIP_SUCCESS;
}

/* A region that is not found was ended by regions_end. */
VIP_RETURN vipl_rnic_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_mutex_lock(&nic->regions_lock);
    struct rnic_region *region = find_region_locked(nic, handle);
    if (region != NULL) {
        vipl_list_remove(&region->link);
    }
    vipl_mutex_unlock(&nic->regions_lock);
    if (region == NULL) {
        return VIP_SUCCESS;
    }
    VIP_RETURN rc = free_region_mr(nic, region);
    if (rc == VIP_SUCCESS) {
        vipl_free(region);
        return rc;
    }
    vipl_mutex_lock(&nic->regions_lock);
    vipl_list_append(bucket_of(nic, handle), &region->link);
    vipl_mutex_unlock(&nic->regions_lock);
    return rc;
}

VIP_RETURN vipl_rnic_region_change(struct vipl_be_nic *be, const struct vipl_region_params *params)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_mutex_lock(&nic->regions_lock);
    const struct rnic_region *region = find_region_locked(nic, params->handle);
    struct rnic_region copy = {.local = 0};
    if (region != NULL) {
        copy = *region;
    }
    vipl_mutex_unlock(&nic->regions_lock);
    if (region == NULL) {
        return VIP_SUCCESS;
    }
    int error = vipl_rnic_change_mr(nic->rnic, &copy.mr, params->tag, rights_of(params) | copy.local);
    return error == 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

VIP_RETURN vipl_rnic_regions_end(struct vipl_be_nic *be)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_mutex_lock(&nic->regions_lock);
    nic->regions_ended = true;
    for (unsigned i = 0; i < RNIC_REGION_BUCKETS; i++) {
        struct vipl_list *link;
        while ((link = vipl_list_take(&nic->regions[i])) != NULL) {
            struct rnic_region *region = VIPL_CONTAINER(link, struct rnic_region, link);
            if (free_region_mr(nic, region) !=
                VIP_SUCCESS) { /* the driver's commands are valid: the card is at fault */
                vipl_rnic_fail(nic->rnic, "the card does not end a tag");
            }
            vipl_free(region);
        }
    }
    vipl_mutex_unlock(&nic->regions_lock);
    return VIP_SUCCESS;
}

/* --- memory of the card --- */

static VIP_RETURN code_of_memory(int error)
{
    return error == 0         ? VIP_SUCCESS
           : error == ENOENT  ? VIP_INVALID_PARAMETER
           : error == ENOTSUP ? VIP_ERROR_NOT_SUPPORTED
                              : VIP_ERROR_RESOURCE;
}

VIP_RETURN vipl_rnic_memory_alloc(struct vipl_be_nic *be, size_t bytes, VIPX_DEVICE_MEMORY kind, void **out)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    enum vipl_rnic_memory which = kind == VIPX_DEVICE_SRAM ? VIPL_RNIC_SRAM : VIPL_RNIC_DRAM;
    int error = vipl_rnic_alloc_memory(nic->rnic, bytes, which, nic, out);
    if (error == ENOSPC) {
        const struct vipl_rnic_caps *caps = vipl_rnic_query(nic->rnic);
        vipl_log(VIPL_LOG_REASON, "rnic: the card has no %zu bytes of %s left in one piece: it has %u in all",
                 bytes, kind == VIPX_DEVICE_SRAM ? "SRAM" : "DRAM",
                 (unsigned)(kind == VIPX_DEVICE_SRAM ? caps->sram_bytes : caps->dram_bytes));
    }
    return code_of_memory(error);
}

VIP_RETURN vipl_rnic_memory_free(struct vipl_be_nic *be, void *address)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    return code_of_memory(vipl_rnic_free_memory(nic->rnic, nic, address));
}
