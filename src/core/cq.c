/* SPDX-License-Identifier: MIT */
/* Completion queues. */
#include "core/cq.h"

#include <assert.h>

#include "base/handle.h"
#include "base/lock_rank.h"
#include "core/nic.h"
#include "core/queue.h"
#include "core/service.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os_compiler.h"

/* The `deliver` of a completion queue. False: VIPL_STRICT=cq and the completion queue is full. */
static bool cq_deliver(struct vipl_sink *sink, struct vipl_work *work)
{
    struct vipl_cq *cq = VIPL_CONTAINER(sink, struct vipl_cq, sink);
    vipl_biased_lock(&cq->lock);
    bool fits = !cq->nic->strict_cq || cq->count < cq->limit;
    if (VIPL_UNLIKELY(!vipl_list_empty(&cq->notifies))) {
        vipl_event_fire_cq(cq, work->queue);
    } else {
        vipl_list_append(&cq->entries, &work->cq_link);
        vipl_store_relaxed(&work->listed, 1);
        vipl_store_relaxed(&cq->count, cq->count + 1);
        vipl_ready_fd_update(cq->ready_fd, true);
        if (!vipl_list_empty(&cq->waiters)) {
            vipl_wake_one_locked(&cq->waiters);
        }
    }
    vipl_biased_unlock(&cq->lock);
    return fits;
}

void vipl_cq_make(void *object)
{
    struct vipl_cq *cq = object;
    cq->sink.deliver = cq_deliver;
    vipl_biased_init(&cq->lock, VIPL_RANK_CQ);
    vipl_list_init(&cq->entries);
    vipl_list_init(&cq->waiters);
    vipl_list_init(&cq->notifies);
}

static struct vipl_pool cq_pool = VIPL_POOL_INIT(cq_pool, struct vipl_cq, nic_link, vipl_cq_make);

void vipl_cq_abandon_pool(void)
{
    vipl_pool_abandon(&cq_pool);
}

struct vipl_cq *vipl_cq_lock(void *handle)
{
    struct vipl_cq *cq = vipl_handle_find(VIPL_KIND_CQ, handle);
    if (cq == NULL) {
        return NULL;
    }
    vipl_biased_lock(&cq->lock);
    if (cq->handle != handle) {
        vipl_biased_unlock(&cq->lock);
        return NULL;
    }
    return cq;
}

VIP_RETURN vipl_cq_create(struct vipl_nic *nic, VIP_ULONG entries, void **handle)
{
    struct vipl_cq *cq = vipl_pool_get(&cq_pool);
    if (cq == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    void *h = vipl_handle_create(VIPL_KIND_CQ, cq);
    if (h == NULL) {
        vipl_pool_put(&cq_pool, cq);
        return VIP_ERROR_RESOURCE;
    }
    vipl_mutex_lock(&nic->lock);
    bool room = nic->cq_count < nic->limits.max_cqs && vipl_load_relaxed(&nic->closing) == 0;
    if (room) {
        nic->cq_count++;
        vipl_biased_lock(&cq->lock);
        vipl_store_ptr((void **)&cq->nic, nic);
        cq->queues = 0;
        cq->limit = (uint32_t)entries;
        cq->request_ended = false;
        vipl_store_relaxed(&cq->count, 0);
        vipl_store_ptr(&cq->handle, h);
        vipl_list_append(&nic->cqs, &cq->nic_link);
        vipl_biased_allow(&cq->lock);
        vipl_biased_unlock(&cq->lock);
    }
    vipl_mutex_unlock(&nic->lock);
    if (!room) {
        vipl_handle_destroy(h);
        vipl_pool_put(&cq_pool, cq);
        return VIP_ERROR_RESOURCE;
    }
    *handle = h;
    return VIP_SUCCESS;
}

VIP_RETURN vipl_cq_destroy(struct vipl_nic *nic, void *handle)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&nic->lock);
    struct vipl_cq *cq = vipl_cq_lock(handle);
    if (cq == NULL || cq->nic != nic) {
        rc = VIP_INVALID_PARAMETER;
    } else if (cq->queues > 0) {
        rc = VIP_ERROR_RESOURCE;
    } else {
        assert(vipl_list_empty(&cq->entries));
        vipl_store_ptr(&cq->handle, NULL);
        vipl_wake_all_locked(&cq->waiters);
        vipl_events_drop_locked(&cq->notifies);
        vipl_ready_fd_free(cq->ready_fd);
        cq->ready_fd = NULL;
        vipl_list_remove(&cq->nic_link);
        nic->cq_count--;
    }
    if (cq != NULL) {
        vipl_biased_unlock(&cq->lock);
    }
    vipl_mutex_unlock(&nic->lock);
    if (rc == VIP_SUCCESS) {
        vipl_handle_destroy(handle);
        vipl_pool_put(&cq_pool, cq);
    }
    return rc;
}

/* Wakes all waiters: those in VipCQWait() sleep again. */
void vipl_cq_request_ended(struct vipl_cq *cq)
{
    vipl_biased_lock(&cq->lock);
    cq->request_ended = true;
    vipl_wake_all_locked(&cq->waiters);
    vipl_biased_unlock(&cq->lock);
}

VIPL_NOINLINE void vipl_cq_forget(struct vipl_cq *cq, struct vipl_work *work)
{
    vipl_biased_lock(&cq->lock);
    if (vipl_work_is_listed(work)) {
        vipl_cq_unlist_locked(cq, work);
    }
    vipl_biased_unlock(&cq->lock);
}

void vipl_cq_move(struct vipl_cq *cq, struct vipl_work *from, struct vipl_work *to)
{
    vipl_biased_lock(&cq->lock);
    *to = *from;
    vipl_list_replace(&from->cq_link, &to->cq_link);
    vipl_biased_unlock(&cq->lock);
}
