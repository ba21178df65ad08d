/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a ring of posted descriptors with four running indices,
 *
 *     reaped <= completed <= executed <= posted
 *
 * The program posts and reaps; a send is executed when the backend has taken it, a receive when a
 * message has claimed it. Works may finish in any order and are published in posting order: the
 * descriptor's Status is written once, when its work is published. The ring grows up to the
 * device's limit. This growth is the only allocation on the data path, and happens at most
 * log2(limit) times in a queue's life.
 */
#ifndef VIPL_CORE_QUEUE_H
#define VIPL_CORE_QUEUE_H

#include "base/iov.h"
#include "base/list.h"
#include "core/cq.h"
#include "core/mem.h"
#include "core/ready_fd.h"
#include "core/sink.h"
#include "os/os_biased.h"
#include "os/os_compiler.h"
#include "vipl/vipl.h"

struct vipl_vi;
struct vipl_event;

/* The pieces of a descriptor with many segments, which are too large for the stack. */
struct vipl_long_list {
    struct vipl_iov iov[VIPL_MAX_SEGMENTS];
    VIP_MEM_HANDLE handles[VIPL_MAX_SEGMENTS];
};

/* Works that completed without error. */
struct vipl_done {
    uint64_t works;
    uint64_t bytes;
};

/* All fields are guarded by lock unless they say otherwise. The fields that each message needs are
 * in the first two cache lines, because with many busy VIs each message costs cache misses on
 * them. */
struct vipl_queue {
    __attribute__((aligned(64))) struct vipl_biased lock; /* rank SEND or RECV */
    uint32_t capacity;                                    /* a power of two, or 0 */
    struct vipl_work *ring;
    uint32_t posted;
    uint32_t executed;
    /* atomic: `completed` and `reaped` are written under lock; threads that poll compare them
     * without the lock. */
    uint32_t completed;
    uint32_t reaped;
    uint32_t limit;
    bool is_recv; /* constant */
    bool overrun; /* a completion found its strict completion queue full */
    /* A completion must be announced: the queue has a sink, or has had a waiter, a handler or a
     * ready descriptor. */
    bool is_watched;
    struct vipl_vi *vi; /* constant */
    /* The pieces of the descriptor that is being read; NULL: no descriptor with many segments was
     * posted yet. */
    struct vipl_long_list *long_list;
    /* where completions go; NULL: the program reaps them from this queue */
    struct vipl_sink *sink;
    struct vipl_recent descriptors; /* the region of the last descriptor */
    struct vipl_recent data;        /* the region of the last segment */
    struct vipl_list reading;       /* in vipl_mem.readers; guarded by the lock of vipl_mem */
    /* the epoch in which the queue was last put on that list; 0: never */
    uint32_t reading_epoch;
    struct vipl_done done[4];  /* statistics, by VIP_CONTROL_OP_... */
    struct vipl_cq *cq;        /* constant while the VI is live; NULL: none */
    struct vipl_list waiters;  /* vipl_waiter.link */
    struct vipl_list notifies; /* vipl_event.link, registered handlers */
    /* Readable while there is a completion to reap; NULL: the program has not asked for it. */
    struct vipl_ready_fd *ready_fd;
    uint64_t works_failed; /* statistics: completed with an error, including flushed ones */
};

extern const uint32_t vipl_send_status_op[4]; /* the VIP_STATUS_OP_... of a VIP_CONTROL_OP_... */

/* Initialises the queue of a VI in new memory, once. */
void vipl_queue_make(struct vipl_queue *q, struct vipl_vi *vi, bool is_recv);
/* Prepares the queue for a new VI. */
void vipl_queue_open(struct vipl_queue *q, struct vipl_cq *cq, uint32_t limit);
/* Forgets the results of look-ups of memory, because the VI is new or uses another tag. */
void vipl_queue_forget_memory(struct vipl_queue *q);
void vipl_queue_reset_stats(struct vipl_queue *q);
/* Forgets all works, and touches no descriptor. */
void vipl_queue_close_locked(struct vipl_queue *q);

static inline struct vipl_work *vipl_queue_at(struct vipl_queue *q, uint32_t index)
{
    return &q->ring[index & (q->capacity - 1)];
}

/* Put the queue on the list of readers of memory, and take it off; in mem.c. */
void vipl_queue_enlist_reader(struct vipl_queue *q);
void vipl_queue_delist_reader(struct vipl_queue *q);
bool vipl_queue_grow_locked(struct vipl_queue *q); /* doubles the ring; false: no memory */

/* Returns true if the queue has memory to read a descriptor with that number of segments. A work is
 * posted only then. */
static inline bool vipl_queue_lists(const struct vipl_queue *q, unsigned segments)
{
    return segments <= VIPL_FEW_SEGMENTS || q->long_list != NULL;
}
bool vipl_queue_make_long_list_locked(struct vipl_queue *q); /* false: no memory */

/* Posting and reaping are inline because they are on the path of each message. The queue's lock is
 * held. */

/* Returns true if one more work can be posted without growing the ring. */
static inline bool vipl_queue_has_room(const struct vipl_queue *q)
{
    uint32_t count = q->posted - q->reaped;
    return count < q->limit && count != q->capacity;
}

/* Posts a descriptor; the queue has room. */
static inline struct vipl_work *vipl_queue_put_locked(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor,
                                                      uint16_t segments)
{
    struct vipl_work *work = vipl_queue_at(q, q->posted++);
    work->descriptor = descriptor;
    work->segments = segments;
    work->state = VIPL_WORK_POSTED;
    work->op = VIP_CONTROL_OP_SENDRECV;
    return work;
}

/* Posts a descriptor, and grows the ring if need be. VIP_ERROR_RESOURCE: the queue is full, or
 * there is no memory. */
static inline VIP_RETURN vipl_queue_post_locked(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor,
                                                uint16_t segments)
{
    uint32_t count = q->posted - q->reaped;
    if (count >= q->limit || (count == q->capacity && !vipl_queue_grow_locked(q))) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_queue_put_locked(q, descriptor, segments);
    return VIP_SUCCESS;
}

/* Returns true if all posted works are complete. */
static inline bool vipl_queue_is_idle(const struct vipl_queue *q)
{
    return q->posted == q->completed;
}

/* Reaps the oldest completion, which is on no completion queue, from a queue without a ready
 * descriptor. */
static inline VIP_RETURN vipl_queue_reap_alone_locked(struct vipl_queue *q, const struct vipl_work *work,
                                                      VIP_DESCRIPTOR **out)
{
    vipl_store_relaxed(&q->reaped, q->reaped + 1);
    *out = work->descriptor;
    return (work->status & VIP_STATUS_ERROR_MASK) != 0 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}

/* Reaps the oldest completion. Returns VIP_SUCCESS, VIP_DESCRIPTOR_ERROR, or VIP_NOT_DONE with *out
 * set to NULL. */
static inline VIP_RETURN vipl_queue_reap_locked(struct vipl_queue *q, VIP_DESCRIPTOR **out)
{
    if (q->reaped == q->completed) {
        *out = NULL;
        return VIP_NOT_DONE;
    }
    struct vipl_work *work = vipl_queue_at(q, q->reaped);
    VIP_RETURN rc = vipl_queue_reap_alone_locked(q, work, out);
    if (vipl_work_is_listed(work)) {
        vipl_cq_forget(q->cq, work);
    }
    vipl_ready_fd_update(q->ready_fd, q->reaped != q->completed);
    return rc;
}

/* Returns true if there was nothing to reap a moment ago. The caller need not hold the lock. */
static inline bool vipl_queue_looks_empty(const struct vipl_queue *q)
{
    return vipl_load_relaxed(&q->completed) == vipl_load_relaxed(&q->reaped);
}

/* Makes later completions announce themselves. The caller is about to add a sink, a waiter, a
 * handler or a ready descriptor. */
static inline void vipl_queue_watch(struct vipl_queue *q)
{
    q->is_watched = true;
}

static inline void vipl_queue_count_done(struct vipl_queue *q, unsigned op, uint32_t length)
{
    struct vipl_done *done = &q->done[op];
    done->works++;
    done->bytes += length;
}

/* The memory of the work's descriptor does not exist any more. The program gets the descriptor back
 * as a failure, and nothing is written to it. */
void vipl_queue_lose_locked(struct vipl_queue *q, struct vipl_work *work);

/* Writes the result of a work to its descriptor. The descriptor belongs to the program again as
 * soon as Status is stored, because the program may poll Status. */
static inline void vipl_queue_write_outcome(struct vipl_queue *q, struct vipl_work *work)
{
    VIP_CONTROL_SEGMENT *cs = &work->descriptor->CS;
    if (VIPL_UNLIKELY(vipl_iov_is_safe()) && !vipl_iov_may_write((uint32_t *)(uintptr_t)&cs->Length)) {
        vipl_queue_lose_locked(q, work);
        return;
    }
    if ((work->status & VIP_STATUS_IMMEDIATE) != 0) {
        cs->ImmediateData = work->immediate;
    }
    cs->Length = work->length;
    vipl_store_release(&cs->Status, work->status); /* pairs with the program's poll */
}

/* Returns true if the next work to be executed is also the next to complete, and no finished work
 * behind it would complete together with it. */
static inline bool vipl_queue_may_finish_fast(struct vipl_queue *q)
{
    uint32_t next = q->completed + 1;
    return q->executed == q->completed &&
           (next == q->posted || vipl_queue_at(q, next)->state != VIPL_WORK_FINISHED);
}

/* Completes the next work with success, in a queue for which vipl_queue_may_finish_fast() is true.
 * The caller announces the completion if the queue is watched. Not for use with VIPL_SAFE_COPY.
 * `status` is VIP_STATUS_OP_... */
static inline void vipl_queue_finish_fast_locked(struct vipl_queue *q, struct vipl_work *work,
                                                 uint32_t status, uint32_t length)
{
    VIP_CONTROL_SEGMENT *cs = &work->descriptor->CS;
    work->status = status | VIP_STATUS_DONE;
    work->length = length;
    work->state = VIPL_WORK_COMPLETE;
    cs->Length = length;
    vipl_queue_count_done(q, work->op, length);
    q->executed++;
    /* `completed` comes first: a program that sees Status set finds the queue not empty. */
    vipl_store_relaxed(&q->completed, q->executed);
    vipl_store_release(&cs->Status, status | VIP_STATUS_DONE); /* pairs with the program's poll */
}

/* Announces a complete work of a watched queue to the sink, handler, waiter or ready descriptor. */
void vipl_queue_announce_locked(struct vipl_queue *q, struct vipl_work *work);
/* The slow path of vipl_queue_finish_locked(). */
void vipl_queue_finish_any_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status,
                                  uint32_t length);

/* Sets the result of a work, and publishes all works that are finished in order. `status` includes
 * VIP_STATUS_OP_... */
static inline void vipl_queue_finish_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status,
                                            uint32_t length)
{
    uint32_t next = q->completed + 1;
    bool is_next = work == vipl_queue_at(q, q->completed);
    bool is_alone = next == q->posted || vipl_queue_at(q, next)->state != VIPL_WORK_FINISHED;
    if (VIPL_UNLIKELY(!is_next || !is_alone || (status & VIP_STATUS_ERROR_MASK) != 0)) {
        vipl_queue_finish_any_locked(q, work, status, length);
        return;
    }
    work->status = status | VIP_STATUS_DONE;
    work->length = length;
    work->state = VIPL_WORK_COMPLETE;
    vipl_queue_count_done(q, work->op, length);
    /* the work was finished when it was posted */
    q->executed += q->executed == q->completed ? 1 : 0;
    vipl_store_relaxed(&q->completed, next); /* before Status, as in the fast path */
    vipl_queue_write_outcome(q, work);
    if (q->is_watched) {
        vipl_queue_announce_locked(q, work);
    }
}

/* Completes each unfinished work with VIP_STATUS_DESC_FLUSHED_ERROR. */
void vipl_queue_flush_locked(struct vipl_queue *q);

#endif
