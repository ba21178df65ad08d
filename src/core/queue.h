/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a ring of posted descriptors with four running indices,
 *
 *     reaped <= completed <= executed <= posted
 *
 * The program posts and reaps; a send is executed when the backend has taken it, a receive when a
 * message has claimed it. Works may finish in any order and are published in posting order: the
 * descriptor's Status is written then, once. The ring grows up to the device's limit; the only
 * allocation on the data path, at most log2(limit) times in a queue's life.
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

/* What a descriptor of many segments lists: too much for the stack. */
struct vipl_long_list {
    struct vipl_iov iov[VIPL_MAX_SEGMENTS];
    VIP_MEM_HANDLE handles[VIPL_MAX_SEGMENTS];
};

/* Works that completed without error. */
struct vipl_done {
    uint64_t works;
    uint64_t bytes;
};

/* All fields are guarded by lock unless they say otherwise. What each message needs is in the first two cache lines: with
 * many busy VIs these are what it costs. */
struct vipl_queue {
    __attribute__((aligned(64))) struct vipl_biased lock; /* rank SEND or RECV */
    uint32_t capacity;                                    /* a power of two, or 0 */
    struct vipl_work *ring;
    uint32_t posted;
    uint32_t executed;
    uint32_t completed; /* atomic, as the next: written under lock; threads that poll compare them without */
    uint32_t reaped;
    uint32_t limit;
    bool is_recv; /* constant */
    bool overrun; /* a completion found its strict completion queue full */
    bool
        is_watched; /* a completion may concern more than the program's next Done: a sink, or what follows below */
    struct vipl_vi *vi; /* constant */
    struct vipl_long_list
        *long_list;         /* of the descriptor that is read; NULL: none with so many segments was posted */
    struct vipl_sink *sink; /* where completions go; NULL: the program takes them from here */
    struct vipl_recent descriptors; /* the memory of the last one */
    struct vipl_recent data;        /* and of the last segment */
    struct vipl_list reading;       /* mem.readers; guarded by its lock */
    uint32_t reading_epoch;         /* the latest in which it was put there; 0: none */
    struct vipl_done done[4];       /* statistics, by VIP_CONTROL_OP_... */
    struct vipl_cq *cq;             /* constant while the VI is live; NULL: none */
    struct vipl_list waiters;       /* vipl_waiter.link */
    struct vipl_list notifies;      /* vipl_event.link, registered handlers */
    struct vipl_ready_fd
        *ready_fd; /* readable while there is something to reap; NULL: the program has not asked for it */
    uint64_t works_failed; /* statistics: completed with an error, including flushed ones */
};

extern const uint32_t vipl_send_status_op[4]; /* the VIP_STATUS_OP_... of a VIP_CONTROL_OP_... */

void vipl_queue_make(struct vipl_queue *q, struct vipl_vi *vi, bool is_recv); /* once, in new memory */
void vipl_queue_open(struct vipl_queue *q, struct vipl_cq *cq, uint32_t limit);
void vipl_queue_forget_memory(struct vipl_queue *q); /* the VI begins, or uses another tag from now on */
void vipl_queue_reset_stats(struct vipl_queue *q);   /* its statistics */
void vipl_queue_close_locked(struct vipl_queue *q);  /* forgets everything, touches no descriptor */

static inline struct vipl_work *vipl_queue_at(struct vipl_queue *q, uint32_t index)
{
    return &q->ring[index & (q->capacity - 1)];
}

void vipl_queue_enlist_reader(struct vipl_queue *q); /* mem.c, as the next */
void vipl_queue_delist_reader(struct vipl_queue *q);
bool vipl_queue_grow_locked(struct vipl_queue *q); /* the ring, twofold; false: no memory */

/* Whether a descriptor of so many segments can be read. A work is posted only if it can. */
static inline bool vipl_queue_lists(const struct vipl_queue *q, unsigned segments)
{
    return segments <= VIPL_FEW_SEGMENTS || q->long_list != NULL;
}
bool vipl_queue_make_long_list_locked(struct vipl_queue *q); /* false: no memory */

/* Posting and reaping are on the path of each message, so here. The queue's lock is held. */

/* Whether one more can be posted without more memory. */
static inline bool vipl_queue_has_room(const struct vipl_queue *q)
{
    uint32_t count = q->posted - q->reaped;
    return count < q->limit && count != q->capacity;
}

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

/* Whether all that was posted is complete. */
static inline bool vipl_queue_is_idle(const struct vipl_queue *q)
{
    return q->posted == q->completed;
}

/* The oldest completion, which no completion queue names, of a queue without ready fd. */
static inline VIP_RETURN vipl_queue_reap_alone_locked(struct vipl_queue *q, const struct vipl_work *work,
                                                      VIP_DESCRIPTOR **out)
{
    vipl_store_relaxed(&q->reaped, q->reaped + 1);
    *out = work->descriptor;
    return (work->status & VIP_STATUS_ERROR_MASK) != 0 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}

/* VIP_SUCCESS, VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE; *out NULL in the last case. */
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

/* Whether there was nothing to reap a moment ago: a look without the lock. */
static inline bool vipl_queue_looks_empty(const struct vipl_queue *q)
{
    return vipl_load_relaxed(&q->completed) == vipl_load_relaxed(&q->reaped);
}

/* The next completion concerns more than the program's next Done: to be called when a sink, waiter, handler or ready fd is added. */
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

/* The work's descriptor is not there any more: it is returned all the same, as a failure and without an outcome in it. */
void vipl_queue_lose_locked(struct vipl_queue *q, struct vipl_work *work);

/* The descriptor is the program's again once Status is stored: it may be polling it. */
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

/* Whether the next work to be executed is the next to complete as well, with none behind it that would complete with it. */
static inline bool vipl_queue_may_finish_fast(struct vipl_queue *q)
{
    uint32_t next = q->completed + 1;
    return q->executed == q->completed &&
           (next == q->posted || vipl_queue_at(q, next)->state != VIPL_WORK_FINISHED);
}

/* That work, in such a queue, is executed and has succeeded; the caller announces it in a watched one. Not with VIPL_SAFE_COPY.
 * status: VIP_STATUS_OP_... */
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
    vipl_store_relaxed(&q->completed, q->executed); /* first: who sees Status finds the queue not empty */
    vipl_store_release(&cs->Status, status | VIP_STATUS_DONE); /* as in vipl_queue_write_outcome() */
}

void vipl_queue_announce_locked(struct vipl_queue *q,
                                struct vipl_work *work); /* it is complete, of a watched queue */
void vipl_queue_finish_any_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status,
                                  uint32_t length);

/* Sets a work's outcome and publishes what is in order: at once a success that is next in order. status: with VIP_STATUS_OP_... */
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
    q->executed += q->executed == q->completed ? 1 : 0; /* it was finished at posting */
    vipl_store_relaxed(&q->completed, next);            /* first, as above */
    vipl_queue_write_outcome(q, work);
    if (q->is_watched) {
        vipl_queue_announce_locked(q, work);
    }
}

void vipl_queue_flush_locked(struct vipl_queue *q); /* every unfinished work: DESC_FLUSHED_ERROR */

#endif
