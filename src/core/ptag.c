/* SPDX-License-Identifier: MIT */
#include "core/ptag.h"

#include <string.h>

#include "base/handle.h"
#include "base/lock_rank.h"
#include "base/pool.h"
#include "core/nic.h"

static void ptag_make(void *object)
{
    (void)object;
}

static struct vipl_pool ptag_pool = VIPL_POOL_INIT(ptag_pool, struct vipl_ptag, nic_link, ptag_make);

void vipl_ptag_abandon_pool(void)
{
    vipl_pool_abandon(&ptag_pool);
}

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

/* The NIC's lock is held. */
static struct vipl_ptag *find_locked(struct vipl_nic *nic, void *handle)
{
    struct vipl_ptag *ptag = vipl_handle_find(VIPL_KIND_PTAG, handle);
    return ptag != NULL && vipl_load_ptr(&ptag->handle) == handle && ptag->nic == nic ? ptag : NULL;
}

static void end_locked(struct vipl_nic *nic, struct vipl_ptag *ptag)
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
    struct vipl_ptag *ptag = find_locked(nic, handle);
    if (ptag == NULL || ptag == nic->default_ptag) {
        rc = VIP_INVALID_PARAMETER;
    } else if (ptag->users > 0) {
        rc = VIP_ERROR_RESOURCE;
    } else {
        end_locked(nic, ptag);
    }
    vipl_mutex_unlock(&nic->lock);
    return rc;
}

VIP_RETURN vipl_ptag_use_locked(struct vipl_nic *nic, void *handle, struct vipl_ptag **out)
{
    struct vipl_ptag *ptag = handle == NULL ? nic->default_ptag : find_locked(nic, handle);
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
        end_locked(nic, VIPL_CONTAINER(nic->ptags.next, struct vipl_ptag, nic_link));
    }
    vipl_mutex_unlock(&nic->lock);
}
