/* SPDX-License-Identifier: MIT */
/*
 * A completion queue: a list of the completed works of its VIs, in completion order. Since the
 * works are linked, no array can overflow. An entry leaves the list when the program takes it, or
 * when its work is reaped.
 */
#ifndef VIPL_CORE_CQ_H
#define VIPL_CORE_CQ_H

#include <stdbool.h>

#include "base/list.h"
#include "base/pool.h"
#include "core/ready_fd.h"
#include "core/sink.h"
#include "os/os_biased.h"
#include "vipl/vipl.h"

struct vipl_nic;

/* From the pool; live while `handle` is set. */
struct vipl_cq {
    struct vipl_sink sink;   /* the sink of the work queues bound to this completion queue */
    struct vipl_biased lock; /* rank CQ */
    /* atomic: written under the NIC's lock and lock; NULL: not a live queue */
    void *handle;
    struct vipl_nic *nic;      /* constant while live; atomic, for threads that poll */
    struct vipl_list nic_link; /* nic->cqs; guarded by the NIC's lock. In the pool: free link */
    uint32_t queues;           /* the number of those work queues; guarded by the NIC's lock */
    uint32_t limit;            /* EntryCount; guarded by lock */
    /* atomic: the number of entries; written under lock; threads that poll read it without. */
    uint32_t count;
    struct vipl_list entries;  /* vipl_work.cq_link; guarded by lock */
    struct vipl_list waiters;  /* vipl_waiter.link; guarded by lock */
    struct vipl_list notifies; /* vipl_event.link, registered handlers; guarded by lock */
    /* A peer-to-peer request of a VI of this queue has ended, and no VipxCQWaitFds() has returned
     * for that yet; guarded by lock. */
    bool request_ended;
    /* Readable while there are entries; NULL: the program has not asked for it; guarded by lock. */
    struct vipl_ready_fd *ready_fd;
};

void vipl_cq_make(void *object); /* initialises a vipl_cq in new memory, once */
VIP_RETURN vipl_cq_create(struct vipl_nic *nic, VIP_ULONG entries, void **handle);
VIP_RETURN vipl_cq_destroy(struct vipl_nic *nic, void *handle);
/* Finds a completion queue by its handle and locks it. NULL: not a live handle. */
struct vipl_cq *vipl_cq_lock(void *handle);

/* Returns true if a completion queue, which the caller has found by `handle`, has no entry. For a
 * thread that polls without a lock. */
static inline bool vipl_cq_looks_empty(const struct vipl_cq *cq, const void *handle)
{
    return vipl_load_relaxed(&cq->count) == 0 && vipl_load_ptr(&cq->handle) == handle;
}

/* Removes an entry. The completion queue does not use its work afterwards. */
static inline void vipl_cq_unlist_locked(struct vipl_cq *cq, struct vipl_work *work)
{
    vipl_list_remove(&work->cq_link);
    vipl_store_relaxed(&cq->count, cq->count - 1);
    vipl_ready_fd_update(cq->ready_fd, cq->count > 0);
    vipl_store_release(&work->listed, 0); /* pairs with vipl_work_is_listed() */
}

/* Removes the entry of a work that is reaped or forgotten, if the work is still listed. */
void vipl_cq_forget(struct vipl_cq *cq, struct vipl_work *work);
/* Moves the entry of a work to the work's new memory. */
void vipl_cq_move(struct vipl_cq *cq, struct vipl_work *from, struct vipl_work *to);
/* A peer-to-peer request of a VI of the queue has ended: one call of VipxCQWaitFds() returns. The
 * caller may hold the VI's locks. */
void vipl_cq_request_ended(struct vipl_cq *cq);
void vipl_cq_abandon_pool(void);

#endif
