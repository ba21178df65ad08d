/* SPDX-License-Identifier: MIT */
/*
 * A completion queue: the completed works of its VIs, linked in completion order. It has no array that could
 * overflow; an entry leaves the list when it is taken, or when its work is reaped.
 */
#ifndef VIPL_CORE_CQ_H
#define VIPL_CORE_CQ_H

#include "base/list.h"
#include "base/pool.h"
#include "core/ready_fd.h"
#include "core/sink.h"
#include "os/os_biased.h"
#include "vipl/vipl.h"

struct vipl_nic;

/* From the pool; live while `handle` is set. */
struct vipl_cq {
    struct vipl_sink sink;     /* of the queues bound here */
    struct vipl_biased lock;   /* rank CQ */
    void *handle;              /* atomic: written under the NIC's lock and lock; NULL: not a live queue */
    struct vipl_nic *nic;      /* constant while live; atomic, for threads that poll */
    struct vipl_list nic_link; /* nic->cqs; guarded by the NIC's lock. In the pool: free link */
    uint32_t queues;           /* work queues bound here; guarded by the NIC's lock */
    uint32_t limit;            /* EntryCount; guarded by lock */
    uint32_t count;            /* entries; atomic: written under lock, threads that poll look without */
    struct vipl_list entries;  /* vipl_work.cq_link; guarded by lock */
    struct vipl_list waiters;  /* vipl_waiter.link; guarded by lock */
    struct vipl_list notifies; /* vipl_event.link, registered handlers; guarded by lock */
    /* readable while there are entries; NULL: the program has not asked for it; guarded by lock */
    struct vipl_ready_fd *ready_fd;
};

void vipl_cq_make(void *object); /* a vipl_cq, once, in new memory */
VIP_RETURN vipl_cq_create(struct vipl_nic *nic, VIP_ULONG entries, void **handle);
VIP_RETURN vipl_cq_destroy(struct vipl_nic *nic, void *handle);
struct vipl_cq *vipl_cq_lock(void *handle); /* NULL: no such queue */

/* For a thread that polls, without a lock: whether a queue that the handle was found to be of has no entry. */
static inline bool vipl_cq_looks_empty(const struct vipl_cq *cq, const void *handle)
{
    return vipl_load_relaxed(&cq->count) == 0 && vipl_load_ptr(&cq->handle) == handle;
}

/* An entry leaves. Its work is not the completion queue's to look at any more. */
static inline void vipl_cq_unlist_locked(struct vipl_cq *cq, struct vipl_work *work)
{
    vipl_list_remove(&work->cq_link);
    vipl_store_relaxed(&cq->count, cq->count - 1);
    vipl_ready_fd_update(cq->ready_fd, cq->count > 0);
    vipl_store_release(&work->listed, 0); /* pairs with vipl_work_is_listed() */
}

/* A listed work is reaped or forgotten: its entry is removed, if it is still there. */
void vipl_cq_forget(struct vipl_cq *cq, struct vipl_work *work);
/* The work's memory moved: its entry follows. */
void vipl_cq_move(struct vipl_cq *cq, struct vipl_work *from, struct vipl_work *to);
void vipl_cq_abandon_pool(void);

#endif
