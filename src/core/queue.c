/* SPDX-License-Identifier: MIT */
/* Work queues: posting, publishing in order, reaping. Everything here runs under the queue's lock. */
#include "core/queue.h"

#include <assert.h>
#include <string.h>

#include "base/iov.h"
#include "base/lock_rank.h"
#include "core/service.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os.h"

enum { FIRST_CAPACITY = 8 };

const uint32_t vipl_send_status_op[] = {VIP_STATUS_OP_SEND, VIP_STATUS_OP_RDMA_WRITE, VIP_STATUS_OP_RDMA_READ,
                                        VIP_STATUS_OP_SEND};

void vipl_queue_make(struct vipl_queue *q, struct vipl_vi *vi, bool is_recv)
{
    vipl_mutex_init(&q->lock, is_recv ? VIPL_RANK_RECV : VIPL_RANK_SEND);
    q->is_recv = is_recv;
    q->vi = vi;
    vipl_list_init(&q->waiters);
    vipl_list_init(&q->notifies);
}

void vipl_queue_open(struct vipl_queue *q, struct vipl_cq *cq, uint32_t limit)
{
    q->posted = q->executed = q->completed = q->reaped = 0;
    q->limit = limit;
    q->overrun = false;
    q->cq = cq;
    q->sink = cq == NULL ? NULL : &cq->sink;
}

void vipl_queue_reset_stats(struct vipl_queue *q)
{
    memset(q->done, 0, sizeof(q->done));
    q->works_failed = 0;
}

void vipl_queue_close_locked(struct vipl_queue *q)
{
    assert(vipl_mutex_is_held(&q->lock));
    for (uint32_t i = q->reaped; q->cq != NULL && i != q->completed; i++) {
        vipl_cq_forget(q->cq, vipl_queue_at(q, i));
    }
    vipl_wake_all_locked(&q->waiters);
    vipl_events_drop_locked(&q->notifies);
    vipl_ready_fd_free(q->ready_fd);
    q->ready_fd = NULL;
    vipl_free(q->ring);
    q->ring = NULL;
    q->capacity = 0;
    q->posted = q->executed = q->completed = q->reaped = 0;
    q->cq = NULL;
    q->sink = NULL;
}

static bool grow_locked(struct vipl_queue *q)
{
    uint32_t capacity = q->capacity == 0 ? FIRST_CAPACITY : q->capacity * 2;
    struct vipl_work *ring = vipl_alloc(capacity * sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = q->reaped; i != q->posted; i++) {
        struct vipl_work *from = vipl_queue_at(q, i);
        struct vipl_work *to = &ring[i & (capacity - 1)];
        if (q->cq != NULL) {
            vipl_cq_move(q->cq, from, to);
        } else {
            *to = *from;
            vipl_list_init(&to->cq_link);
        }
    }
    vipl_free(q->ring);
    q->ring = ring;
    q->capacity = capacity;
    return true;
}

VIP_RETURN vipl_queue_post_locked(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor, uint16_t segments)
{
    assert(vipl_mutex_is_held(&q->lock));
    uint32_t count = q->posted - q->reaped;
    if (count >= q->limit || (count == q->capacity && !grow_locked(q))) {
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_work *work = vipl_queue_at(q, q->posted++);
    vipl_list_init(&work->cq_link);
    work->queue = q;
    work->descriptor = descriptor;
    work->segments = segments;
    work->state = VIPL_WORK_POSTED;
    work->op = VIP_CONTROL_OP_SENDRECV;
    return VIP_SUCCESS;
}

/* The descriptor is the program's again once Status is stored: it may be polling it. */
static void write_outcome(const struct vipl_work *work)
{
    VIP_CONTROL_SEGMENT *cs = &work->descriptor->CS;
    if (vipl_iov_is_safe() && !vipl_iov_may_write((uint32_t *)(uintptr_t)&cs->Length)) {
        return; /* the descriptor is returned all the same, without an outcome in it */
    }
    if ((work->status & VIP_STATUS_IMMEDIATE) != 0) {
        cs->ImmediateData = work->immediate;
    }
    cs->Length = work->length;
    vipl_store_release(&cs->Status, work->status); /* pairs with the program's poll */
}

static void count(struct vipl_queue *q, const struct vipl_work *work)
{
    if ((work->status & VIP_STATUS_ERROR_MASK) != 0) {
        q->works_failed++;
    } else {
        struct vipl_done *done = &q->done[work->op];
        done->works++;
        done->bytes += work->length;
    }
}

/* Without a sink the completion is for a handler, or stays here until the program reaps it. */
static inline void deliver(struct vipl_queue *q, struct vipl_work *work)
{
    if (q->sink != NULL) {
        q->overrun |= !q->sink->deliver(q->sink, work);
    } else if (!vipl_list_empty(&q->notifies)) {
        VIP_DESCRIPTOR *taken;
        vipl_queue_reap_locked(q, &taken);
        vipl_event_fire_vi(q, taken);
    } else {
        vipl_ready_fd_update(q->ready_fd, true);
    }
}

/* A completion is for one waiter; but when there is nothing more to complete, a disconnect may wait for just that. */
static void wake_waiters(struct vipl_queue *q)
{
    if (q->completed == q->posted) {
        vipl_wake_all_locked(&q->waiters);
    } else {
        vipl_wake_one_locked(&q->waiters);
    }
}

static void publish_locked(struct vipl_queue *q)
{
    while (q->completed != q->posted) {
        struct vipl_work *work = vipl_queue_at(q, q->completed);
        if (work->state != VIPL_WORK_FINISHED) {
            return;
        }
        write_outcome(work);
        count(q, work);
        work->state = VIPL_WORK_COMPLETE;
        q->completed++;
        if (q->executed - q->reaped < q->completed - q->reaped) {
            q->executed = q->completed;
        }
        deliver(q, work);
        if (!vipl_list_empty(&q->waiters)) {
            wake_waiters(q);
        }
    }
}

void vipl_queue_finish_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status, uint32_t length)
{
    assert(vipl_mutex_is_held(&q->lock));
    assert(work->state < VIPL_WORK_FINISHED);
    work->status = status | VIP_STATUS_DONE;
    work->length = length;
    work->state = VIPL_WORK_FINISHED;
    publish_locked(q);
}

static uint32_t flush_status(const struct vipl_queue *q, const struct vipl_work *work)
{
    uint32_t op = q->is_recv ? VIP_STATUS_OP_RECEIVE : vipl_send_status_op[work->op];
    return op | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_DONE;
}

void vipl_queue_flush_locked(struct vipl_queue *q)
{
    assert(vipl_mutex_is_held(&q->lock));
    for (uint32_t i = q->completed; i != q->posted; i++) {
        struct vipl_work *work = vipl_queue_at(q, i);
        if (work->state < VIPL_WORK_FINISHED) {
            work->status = flush_status(q, work);
            work->length = 0;
            work->state = VIPL_WORK_FINISHED;
        }
    }
    q->executed = q->posted;
    publish_locked(q);
}

VIP_RETURN vipl_queue_reap_locked(struct vipl_queue *q, VIP_DESCRIPTOR **out)
{
    assert(vipl_mutex_is_held(&q->lock));
    if (q->reaped == q->completed) {
        *out = NULL;
        return VIP_NOT_DONE;
    }
    struct vipl_work *work = vipl_queue_at(q, q->reaped++);
    if (q->cq != NULL) {
        vipl_cq_forget(q->cq, work);
    } else {
        vipl_ready_fd_update(q->ready_fd, q->reaped != q->completed);
    }
    *out = work->descriptor;
    return (work->status & VIP_STATUS_ERROR_MASK) != 0 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}
