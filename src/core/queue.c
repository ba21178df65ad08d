/* SPDX-License-Identifier: MIT */
/* Work queues: posting, publishing in order, reaping. The caller of each function holds the queue's
 * lock. */
#include "core/queue.h"

#include <assert.h>
#include <string.h>

#include "base/lock_rank.h"
#include "core/descriptor.h"
#include "core/service.h"
#include "core/vi.h"
#include "core/wait.h"
#include "os/os.h"
#include "os/os_compiler.h"

enum { FIRST_CAPACITY = 2 }; /* small, so that many busy VIs use few cache lines */

_Static_assert(sizeof(struct vipl_work) == 64, "its place in a ring is found by a shift");

const uint32_t vipl_send_status_op[] = {VIP_STATUS_OP_SEND, VIP_STATUS_OP_RDMA_WRITE, VIP_STATUS_OP_RDMA_READ,
                                        VIP_STATUS_OP_SEND};

void vipl_queue_make(struct vipl_queue *q, struct vipl_vi *vi, bool is_recv)
{
    vipl_biased_init(&q->lock, is_recv ? VIPL_RANK_RECV : VIPL_RANK_SEND);
    q->is_recv = is_recv;
    q->vi = vi;
    vipl_list_init(&q->waiters);
    vipl_list_init(&q->notifies);
    vipl_list_init(&q->reading);
}

static void reset_indices(struct vipl_queue *q)
{
    q->posted = q->executed = 0;
    vipl_store_relaxed(&q->completed, 0);
    vipl_store_relaxed(&q->reaped, 0);
}

void vipl_queue_open(struct vipl_queue *q, struct vipl_cq *cq, uint32_t limit)
{
    reset_indices(q);
    q->limit = limit;
    q->overrun = false;
    vipl_queue_forget_memory(q);
    q->cq = cq;
    q->sink = cq == NULL ? NULL : &cq->sink;
    q->is_watched = cq != NULL;
}

void vipl_queue_forget_memory(struct vipl_queue *q)
{
    memset(&q->descriptors, 0, sizeof(q->descriptors));
    memset(&q->data, 0, sizeof(q->data));
}

void vipl_queue_reset_stats(struct vipl_queue *q)
{
    memset(q->done, 0, sizeof(q->done));
    q->works_failed = 0;
}

void vipl_queue_close_locked(struct vipl_queue *q)
{
    assert(vipl_biased_is_held(&q->lock));
    for (uint32_t i = q->reaped; i != q->completed; i++) {
        struct vipl_work *work = vipl_queue_at(q, i);
        if (vipl_work_is_listed(work)) {
            vipl_cq_forget(q->cq, work);
        }
    }
    vipl_queue_delist_reader(q);
    vipl_wake_all_locked(&q->waiters);
    vipl_events_drop_locked(&q->notifies);
    vipl_ready_fd_free(q->ready_fd);
    q->ready_fd = NULL;
    vipl_free(q->ring);
    q->ring = NULL;
    q->capacity = 0;
    vipl_free(q->long_list);
    q->long_list = NULL;
    reset_indices(q);
    q->cq = NULL;
    q->sink = NULL;
}

VIPL_COLD bool vipl_queue_grow_locked(struct vipl_queue *q)
{
    uint32_t capacity = q->capacity == 0 ? FIRST_CAPACITY : q->capacity * 2;
    struct vipl_work *ring = vipl_alloc(capacity * sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < capacity; i++) {
        ring[i].queue = q;
        ring[i].listed = 0;
        vipl_list_init(&ring[i].cq_link);
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

VIPL_COLD bool vipl_queue_make_long_list_locked(struct vipl_queue *q)
{
    if (q->long_list == NULL) {
        q->long_list = vipl_alloc(sizeof(*q->long_list));
    }
    return q->long_list != NULL;
}

static void count_work(struct vipl_queue *q, const struct vipl_work *work)
{
    if ((work->status & VIP_STATUS_ERROR_MASK) != 0) {
        q->works_failed++;
    } else {
        vipl_queue_count_done(q, work->op, work->length);
    }
}

/* Delivers a completion to the sink. Without a sink the completion goes to a handler, or stays in
 * the queue until the program reaps it. */
static void deliver_completion(struct vipl_queue *q, struct vipl_work *work)
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

/* Wakes one waiter for a completion. When all works are complete, all waiters are woken, because a
 * disconnect may be waiting for that. */
static void wake_waiters(struct vipl_queue *q)
{
    if (q->completed == q->posted) {
        vipl_wake_all_locked(&q->waiters);
    } else {
        vipl_wake_one_locked(&q->waiters);
    }
}

/* Returns true if completions must be announced. */
static bool has_watcher(const struct vipl_queue *q)
{
    return q->sink != NULL || q->ready_fd != NULL || !vipl_list_empty(&q->waiters) ||
           !vipl_list_empty(&q->notifies);
}

VIPL_NOINLINE void vipl_queue_announce_locked(struct vipl_queue *q, struct vipl_work *work)
{
    deliver_completion(q, work);
    if (!vipl_list_empty(&q->waiters)) {
        wake_waiters(q);
    }
    q->is_watched = has_watcher(q); /* without watchers the next completion takes the fast path */
}

VIPL_COLD void vipl_queue_lose_locked(struct vipl_queue *q, struct vipl_work *work)
{
    if ((work->status & VIP_STATUS_ERROR_MASK) == 0) {
        work->status |= VIP_STATUS_PROTECTION_ERROR;
        if (vipl_vi_is_reliable(q->vi)) {
            vipl_vi_fail(q->vi, VIP_ERROR_CONN_LOST);
        }
    }
}

static inline void publish_locked(struct vipl_queue *q)
{
    while (q->completed != q->posted) {
        struct vipl_work *work = vipl_queue_at(q, q->completed);
        if (work->state != VIPL_WORK_FINISHED) {
            return;
        }
        count_work(q, work);
        work->state = VIPL_WORK_COMPLETE;
        q->executed += q->executed == q->completed ? 1 : 0; /* the work was finished when posted */
        /* `completed` comes before Status: a program that sees Status finds the queue not empty. */
        vipl_store_relaxed(&q->completed, q->completed + 1);
        vipl_queue_write_outcome(q, work);
        if (q->is_watched) {
            vipl_queue_announce_locked(q, work);
        }
    }
}

VIPL_NOINLINE void vipl_queue_finish_any_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status,
                                                uint32_t length)
{
    assert(vipl_biased_is_held(&q->lock));
    assert(work->state < VIPL_WORK_FINISHED);
    work->status = status | VIP_STATUS_DONE;
    work->length = length;
    work->state = VIPL_WORK_FINISHED;
    publish_locked(q);
}

/* The status of a flushed work. The operation of a work that was never executed is read from its
 * descriptor. */
static uint32_t flush_status(const struct vipl_queue *q, const struct vipl_work *work)
{
    uint32_t op = q->is_recv                        ? VIP_STATUS_OP_RECEIVE
                  : work->state == VIPL_WORK_POSTED ? vipl_send_status_op[vipl_descriptor_op(work)]
                                                    : vipl_send_status_op[work->op];
    return op | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_DONE;
}

void vipl_queue_flush_locked(struct vipl_queue *q)
{
    assert(vipl_biased_is_held(&q->lock));
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
